package policy

import (
	_ "embed"
	"slices"
)

//go:embed policy.schema.json
var schema []byte

// Schema returns the JSON schema (draft 2020-12) of policy files, for completion and checks in
// editors. The schema covers the structure of a file; [Check] checks more. The caller owns the
// slice.
func Schema() []byte { return slices.Clone(schema) }
