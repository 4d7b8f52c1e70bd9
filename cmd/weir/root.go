package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

// commands returns all commands by name. A new command has a file of its own, with a constructor,
// and one line here.
func commands() []*cobra.Command {
	return []*cobra.Command{
		newCheck(),
		newConform(),
		newConvert(),
		newDigest(),
		newExplain(),
		newPlayground(),
		newSchema(),
		newServe(),
		newSimulate(),
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Tools for the policy files of weir, a rate limiter",
		Long: `A policy file has the rules of a program that limits rates with github.com/weir-go/weir.
docs/policy.md of its repository describes the format.`,
		Example: `  weir check weir.yaml
  weir explain --policy weir.yaml POST /login
  weir simulate --limit 60/minute access.log`,
		Version: version(),
		Args: func(root *cobra.Command, args []string) error {
			return noCommand(root, args)
		},
		RunE:          func(root *cobra.Command, _ []string) error { return root.Help() },
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
	}
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(commands()...)
	withManual(root)
	return root
}

// version returns the module version of this program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}
