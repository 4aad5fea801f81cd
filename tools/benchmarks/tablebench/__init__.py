"""TableBench: questions about tables, answered in text or drawn as charts."""
