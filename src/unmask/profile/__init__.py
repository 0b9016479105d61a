"""What a step costs, part by part, against what the hardware allows: `unmask profile`."""
