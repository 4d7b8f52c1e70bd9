package interleave_test

// built reports whether memory is built from copies that import the shims. The overlay has a copy
// of this file with the other value.
const built = false
