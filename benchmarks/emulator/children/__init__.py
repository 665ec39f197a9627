"""What runs in processes of its own beside the emulator. Imported by nobody."""
