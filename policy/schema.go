package policy

import (
	_ "embed"
	"slices"
)

//go:embed policy.schema.json
var schema []byte

// Schema returns the JSON schema (draft 2020-12) of policy files, with which editors
// complete and check them. It knows the shape of a file; [Check] knows more. The slice is
// the caller's.
func Schema() []byte { return slices.Clone(schema) }
