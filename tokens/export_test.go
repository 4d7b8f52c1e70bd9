package tokens

// IsLanguage reports whether application/name is a type of texts.
func IsLanguage(name string) bool { return isLanguage([]byte(name)) }
