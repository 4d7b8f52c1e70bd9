package interleave

// Plant names the mistake that copies of the library make. A test sets it to see the mistake found.
var Plant string

// Planted reports whether a copy of the library makes a mistake.
func Planted(mistake string) bool { return Plant == mistake }
