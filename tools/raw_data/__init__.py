"""Raw data of benchmarks: what each source is, where it lies, and how it comes here."""
