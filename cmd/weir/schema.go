package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/policy"
)

// schemas are the JSON schemas of files, by what is in them.
var schemas = map[string]func() []byte{"policy": policy.Schema, "limits": descriptors.Schema}

func newSchema() *cobra.Command {
	return withExitStatus(&cobra.Command{
		Use:   "schema [policy|limits]",
		Short: "Print the JSON schema of policy files, or of limits by descriptors",
		Long: `schema prints the JSON schema (draft 2020-12) of policy files, or of files of limits by
descriptors. With it, editors complete fields and mark mistakes while you type. The schema
knows the shape of a file; "weir check" knows more.

Save it beside the file, and name it in the file's first line:

  # yaml-language-server: $schema=policy.schema.json`,
		Example: `  weir schema > policy.schema.json
  weir schema limits > limits.schema.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && schemas[args[0]] == nil {
				return fmt.Errorf("there is a schema of policy and one of limits (got %.80q): name one, as in: "+
					"weir schema limits > limits.schema.json", strings.Join(args, " "))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string,
			cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return slices.Sorted(maps.Keys(schemas)), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			of := policy.Schema
			if len(args) > 0 {
				of = schemas[args[0]]
			}
			_, err := c.OutOrStdout().Write(of())
			return err
		},
	}, `  0  the schema was printed
  2  it could not be written`)
}
