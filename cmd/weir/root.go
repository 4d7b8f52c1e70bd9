package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// commands returns all commands by name. A new command has a file of its own, with a constructor,
// and one line here.
func commands() []*cobra.Command {
	return []*cobra.Command{
		newCheck(),
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

// noCommand returns an error if args is not empty: its first element is not a command.
func noCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("there is no command %.80q: write %s", args[0],
			strings.Join(near, " or "))
	}
	return fmt.Errorf("there is no command %.80q: \"weir --help\" lists the commands", args[0])
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [<command>]",
		Short:   "Print the manual of a command",
		Long:    "help prints the manual of a command, as --help of the command does.",
		Example: "  weir help check",
		ValidArgsFunction: func(c *cobra.Command, args []string,
			_ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			if len(args) == 0 {
				for _, command := range c.Root().Commands() {
					if command.Hidden {
						continue
					}
					names = append(names, cobra.CompletionWithDesc(command.Name(), command.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return noCommand(c.Root(), args)
			}
			return found.Help()
		},
	}
}

// version returns the module version of this program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}
