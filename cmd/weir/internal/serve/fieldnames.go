package serve

import (
	"errors"
	"fmt"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/gateway/envoy"
)

// FieldNames are the names of the header fields with the numbers of a limit. "": that of gateway.Names.
type FieldNames struct{ Limit, Remaining, Reset string }

// parse returns the names, and every mistake in them.
func (f FieldNames) parse() (gateway.Names, error) {
	names, err := gateway.NewNames(f.Limit, f.Remaining, f.Reset)
	if err != nil {
		return names, fmt.Errorf("--limit-field, --remaining-field and --reset-field: %w", err)
	}
	return names, nil
}

// suits returns a mistake if a service without a policy has no fields to name.
func (f FieldNames) suits(o envoy.RateLimitOptions) error {
	if f != (FieldNames{}) && !o.Fields {
		return errors.New("--limit-field, --remaining-field and --reset-field: " +
			"answers to descriptors have such fields with --fields alone: set it, or leave the names out")
	}
	return nil
}
