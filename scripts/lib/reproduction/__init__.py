"""Figures of papers beside ours: frame.py has what a figure is and how it is shown, papers.py which papers there are."""
