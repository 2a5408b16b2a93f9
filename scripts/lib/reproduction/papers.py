"""The papers of scripts/reproduce. A new one is a module here with a PAPER, and a line in this list."""
from reproduction import dsa, multicast, netreduce, scin

PAPERS = {paper.name: paper for paper in (netreduce.PAPER, multicast.PAPER, scin.PAPER, dsa.PAPER)}
