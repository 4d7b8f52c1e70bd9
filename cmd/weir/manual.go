package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// exitStatus is the annotation that holds the section "Exit status" of a command's manual.
const exitStatus = "exit status"

// manual is the template of --help.
const manual = `{{.CommandPath}}: {{.Short}}

Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} <command> [flags]{{else}}{{.UseLine}}{{end}}

{{with .Long}}{{. | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableSubCommands}}
Commands:{{range .Commands}}{{if or .IsAvailableCommand (eq .Name "help")}}
  {{rpad .Name .NamePadding}}  {{.Short}}{{end}}{{end}}
{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsagesWrapped 90 | trimTrailingWhitespaces}}
{{end}}{{if .HasExample}}
Examples:
{{.Example | trimTrailingWhitespaces}}
{{end}}{{with index .Annotations "exit status"}}
Exit status:
{{. | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableSubCommands}}
"{{.CommandPath}} <command> --help" prints the manual of a command.
{{end}}`

// withExitStatus sets the section "Exit status" of the manual of c, and returns c.
func withExitStatus(c *cobra.Command, text string) *cobra.Command {
	c.Annotations = map[string]string{exitStatus: text}
	return c
}

// withManual sets the manual of all commands, and makes errors refer to it.
func withManual(root *cobra.Command) {
	root.SetHelpTemplate(manual)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		where := fmt.Sprintf("%q lists the flags", c.CommandPath()+" --help")
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			if near := nearFlags(c, unknown.GetSpecifiedName()); len(near) > 0 {
				return fmt.Errorf("%w: write --%s; %s", err, strings.Join(near, " or --"), where)
			}
		}
		return fmt.Errorf("%w: %s", err, where)
	})
	root.SetHelpCommand(newHelp())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("completion")
	root.InitDefaultVersionFlag()
	root.Flags().Lookup("version").Usage = "print the version"
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Short = "Print what a shell needs to complete commands, flags and files"
			c.Long = "completion prints a script for your shell. \"weir completion bash " +
				"--help\" says where to put it."
		}
		withHelpFlag(c)
	}
	withHelpFlag(root)
}

// otherNames maps names that other programs use to our flags.
var otherNames = map[string][]string{
	"address": {"client", "ip", "peer"},
	"html":    {"page"},
	"json":    {"output"},
	"limit":   {"rate"},
	"listen":  {"addr", "address", "bind", "host", "port"},
	"policy":  {"config", "file", "rules"},
}

// nearFlags returns the flags of c with names similar to an unknown one.
func nearFlags(c *cobra.Command, name string) []string {
	flags := &cobra.Command{SuggestionsMinimumDistance: 2} // the rule for similar commands
	c.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{
			Use: f.Name, SuggestFor: otherNames[f.Name], Run: func(*cobra.Command, []string) {},
		})
	})
	return slices.Compact(flags.SuggestionsFor(name))
}

func withHelpFlag(c *cobra.Command) {
	c.InitDefaultHelpFlag()
	c.Flags().Lookup("help").Usage = "print this manual"
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
