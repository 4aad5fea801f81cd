"""PANORAMA: three decisions of US patent examiners, one file each."""
