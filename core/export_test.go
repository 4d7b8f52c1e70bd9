package core

// Fallbacks returns how many backends have a fallback that limiters share.
func Fallbacks() int { return fallbacks.Len() }
