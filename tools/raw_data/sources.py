"""The sources of raw data, each pinned: what FT-Dojo trains and tests on, and AIME 2024, which it fetches elsewhere."""

from __future__ import annotations

from tools.raw_data.source import Source

AIME_2024 = Source(
    "aime_2024",
    "AIME 2024",
    "HuggingFaceH4/aime_2024",
    "2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
    licence="not stated",
)
AIME_2025 = Source(
    "aime_2025", "AIME 2025", "opencompass/aime2025", "a6ad95f611d72cf628a80b58bd0432ef6638f958", licence="not stated"
)
DEEPSCALER = Source(
    "deepscaler",
    "DeepScaleR: competition problems up to 2023",
    "agentica-org/DeepScaleR-Preview-Dataset",
    "b6ae8c60f5c1f2b594e2140b91c49c9ad0949e29",
    licence="MIT",
)
PANORAMA = Source(
    "panorama",
    "PANORAMA: decisions of US patent examiners",
    "LG-AI-Research/PANORAMA",
    "5c40de5fb1de842d3a44ec4b9f5bb9c44d47a77d",
    licence="CC-BY-NC-4.0",
    non_commercial=True,
)
TABLEBENCH = Source(
    "tablebench",
    "TableBench",
    "Multilingual-Multimodal-NLP/TableBench",
    "a23c244f9ccae1ea238d614fe7620984707e411a",
    licence="Apache-2.0",
)
TABLEINSTRUCT = Source(
    "tableinstruct",
    "TableInstruct: questions about tables, with answers in four styles",
    "Multilingual-Multimodal-NLP/TableInstruct",
    "41f6406234f22dee9323d4ce6aa5fdb33d9a2bd1",
    licence="Apache-2.0",
)
CHEMCOT = Source(
    "chemcot",
    "ChemCoTDataset: chemistry questions with reasoning",
    "OpenMol/ChemCoTDataset",
    "d88a8af379ba4a7e79f58c04590ad037e79b06ba",
    licence="MIT",
    gated=True,
)
CHEMCOTBENCH = Source(
    "chemcotbench",
    "ChemCoTBench",
    "OpenMol/ChemCoTBench",
    "4cfab96c6f511a504519e2cc003521b6afbac338",
    licence="MIT",
    gated=True,
)
FINANCEIQ = Source(
    "financeiq",
    "FinanceIQ: Chinese exams in finance",
    "Duxiaoman-DI/FinanceIQ",
    "fca1d9ceb6925041264d211b9ddf7264e8145248",
    licence="CC-BY-NC-SA-4.0",
    non_commercial=True,
)
BIOPROBENCH = Source(
    "bioprobench",
    "BioProBench: protocols of biology",
    "bowenxian/BioProBench",
    "c9ae37cac1b789eda6f3ffa62047fce92c286fbb",
    licence="CC-BY-NC-4.0",
    non_commercial=True,
)

SOURCES = (
    AIME_2024,
    AIME_2025,
    DEEPSCALER,
    PANORAMA,
    TABLEBENCH,
    TABLEINSTRUCT,
    CHEMCOT,
    CHEMCOTBENCH,
    FINANCEIQ,
    BIOPROBENCH,
)
