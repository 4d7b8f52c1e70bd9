package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
	"github.com/weir-go/weir/conform"
)

// conformOptions are the flags of conform.
type conformOptions struct {
	only    []string
	explain string
	list    bool
	seed    uint64
	html    string
	json    bool
	verbose bool
}

func newConform() *cobra.Command {
	var o conformOptions
	c := withExitStatus(&cobra.Command{
		Use:   "conform [flags] <profile.yaml>",
		Short: "Check over HTTP whether a rate limiter keeps what it promises",
		Long: `conform starts a server with a rate limiter, written in any language, and checks by requests
whether it keeps its promise. A profile says how it is started and what it promises:

  name: express-rate-limit 8.2.1
  start: node server.js           # in the profile's folder; PORT is in the environment
  url: http://127.0.0.1:$PORT/    # without start: a server that runs already
  limit: 10 per 2s                # a short period, 100ms to 10s
  algorithm: fixed-window         # optional, if the server names one
  key: header X-API-Key           # or address, address in X-Forwarded-For, none
  denied: 429                     # optional
  fields: [retry-after, draft-6]  # optional: the dialects of its header fields
  counts-denied: false            # optional: what it says of denied requests
  store: redis                    # optional: it gets STORE, the URL of a redis-server
  prepare: npm ci                 # optional: runs once before the first start
  send: {Authorization: Basic eA} # optional: header fields of all requests

algorithm is fixed-window, whose windows follow the clock, anchored-window, whose windows
begin with a request, sliding-window, sliding-log, token-bucket, leaky-bucket or gcra; the
last three may have a burst. fields may have ` + strings.Join(conform.Dialects()[:3], ", ") + `,
` + strings.Join(conform.Dialects()[3:], ", ") + `.

Checks judge by counts and intervals, never by how fast answers are. Each says holds, bound
stated with its figure, does not hold with the requests that show it, or does not apply. A
run takes about a minute. Programs that it has started end with it.`,
		Example: `  weir conform profile.yaml
  weir conform --only burst,retry-after profile.yaml
  weir conform --html report.html --seed 7 profile.yaml
  weir conform --explain retry-after
  weir conform --list`,
		Args: func(_ *cobra.Command, args []string) error { return o.check(args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}, `  0  every check holds, states a bound or does not apply
  1  a check does not hold
  2  the profile or a flag has a mistake, a command of the profile fails, or the server does
     not answer`)
	flags := c.Flags()
	flags.StringSliceVar(&o.only, "only", nil, "make only these `checks` (may be repeated)")
	flags.StringVar(&o.explain, "explain", "", "say why a `check` matters, and make none")
	flags.BoolVar(&o.list, "list", false, "list all checks, and make none")
	flags.Uint64Var(&o.seed, "seed", 0, "send what the run with this `seed` sent; 0: a new one")
	flags.StringVar(&o.html, "html", "", "write the report to `file` as a page, too")
	flags.BoolVar(&o.json, "json", false, "print the report as JSON")
	flags.BoolVar(&o.verbose, "verbose", false,
		"show on standard error what the commands of the profile print, and which checks ended")
	names := cobra.FixedCompletions(conformNames(), cobra.ShellCompDirectiveNoFileComp)
	c.RegisterFlagCompletionFunc("only", names)
	c.RegisterFlagCompletionFunc("explain", names)
	c.RegisterFlagCompletionFunc("html",
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"html"}, cobra.ShellCompDirectiveFilterFileExt
		})
	return c
}

// conformNames returns the names of all checks.
func conformNames() (names []string) {
	for _, c := range conform.Checks() {
		names = append(names, c.Name)
	}
	return names
}

// check checks the arguments.
func (o *conformOptions) check(args []string) error {
	switch {
	case o.explain != "" || o.list:
		if len(args) > 0 {
			return fmt.Errorf("--explain and --list make no checks: leave out %.80q", args[0])
		}
	case len(args) != 1:
		return errors.New("name one profile, as in: weir conform profile.yaml")
	}
	return nil
}

func (o *conformOptions) run(c *cobra.Command, args []string) error {
	switch {
	case o.list:
		return listChecks(c.OutOrStdout())
	case o.explain != "":
		return explainCheck(c.OutOrStdout(), o.explain)
	}
	shown, text, err := readInput(c, args[0])
	if err != nil {
		return err
	}
	if o.html != "" {
		if err := checkPage(o.html, args[0]); err != nil {
			return err
		}
	}
	profile, err := conform.Parse(shown, text)
	if err != nil {
		return err
	}
	options := conform.Options{Seed: o.seed, Only: o.only}
	if o.verbose {
		options.Log = c.ErrOrStderr()
	}
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	report, err := conform.Run(ctx, profile, options)
	if err != nil {
		return err
	}
	if err := o.print(c.OutOrStdout(), report); err != nil {
		return err
	}
	if !report.OK() {
		return errFound
	}
	return nil
}

// print writes the report.
func (o *conformOptions) print(out io.Writer, report *conform.Report) error {
	if o.html != "" {
		file, err := os.Create(o.html)
		if err != nil {
			return fmt.Errorf("--html: %w", visible.Error(err))
		}
		if err := errors.Join(report.HTML(file), file.Close()); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if o.json {
		return visible.JSON(out, report)
	}
	var text strings.Builder
	report.Text(&text) // a Builder does not fail
	_, err := io.WriteString(out, visible.Text(text.String()))
	return err
}

// listChecks writes a line for each check.
func listChecks(out io.Writer) error {
	var rows [][]string
	for _, c := range conform.Checks() {
		rows = append(rows, []string{c.Name, c.Says})
	}
	_, err := io.WriteString(out, table(rows))
	return err
}

// explainCheck writes why a check matters.
func explainCheck(out io.Writer, name string) error {
	for _, c := range conform.Checks() {
		if c.Name == name {
			_, err := fmt.Fprintf(out, "%s: %s.\n\n%s\n\nSource: %s.\n", c.Name, c.Says, wrapped(c.Why, 90), c.Source)
			return err
		}
	}
	return fmt.Errorf("there is no check %.80q: the checks are %s", name, strings.Join(conformNames(), ", "))
}

// wrapped breaks a text into lines of at most so many characters.
func wrapped(text string, most int) string {
	var b strings.Builder
	length := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case length+1+len(word) > most:
			b.WriteString("\n")
			length = 0
		default:
			b.WriteString(" ")
			length++
		}
		b.WriteString(word)
		length += len(word)
	}
	return b.String()
}
