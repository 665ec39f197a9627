"""Programs that the emulator runs in processes of their own. They are never imported."""
