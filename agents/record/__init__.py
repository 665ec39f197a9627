"""The log of a run: appending, the rows that pages read, streaming, sentences for events, withholding parts."""
