package tokens

// IsLanguage reports whether application/name is a type of texts.
func IsLanguage(name string) bool { return isLanguage([]byte(name)) }

// Bounded returns u without parts that are more than the whole.
func Bounded(u Usage) Usage { return u.bounded() }
