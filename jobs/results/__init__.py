"""What a job left behind, for reading: details, rankings, comparisons, lists and labels."""
