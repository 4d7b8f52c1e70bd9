package descriptors

import (
	_ "embed"
	"slices"
)

//go:embed limits.schema.json
var schema []byte

// Schema returns the JSON schema (draft 2020-12) of files of limits, for completion and checks in
// editors. The schema covers the structure of a file; [Parse] checks more. The caller owns the
// slice.
func Schema() []byte { return slices.Clone(schema) }
