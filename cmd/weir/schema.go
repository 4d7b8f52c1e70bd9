package main

import (
	"github.com/spf13/cobra"
	"github.com/weir-go/weir/policy"
)

func newSchema() *cobra.Command {
	return withExitStatus(&cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of policy files",
		Long: `schema prints the JSON schema (draft 2020-12) of policy files. With it, editors complete
fields and mark mistakes while you type. The schema knows the shape of a file; "weir
check" knows more.

Save it beside the policy, and name it in the policy's first line:

  # yaml-language-server: $schema=policy.schema.json`,
		Example: `  weir schema > policy.schema.json`,
		Args: noArguments("there is one schema for all policy files, as in: weir " +
			"schema > policy.schema.json"),
		ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(policy.Schema())
			return err
		},
	}, `  0  the schema was printed
  2  it could not be written`)
}
