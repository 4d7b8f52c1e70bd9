package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	simreport "github.com/weir-go/weir/cmd/weir/internal/report"
	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	policy, against  string
	limit, key       string
	value            string
	match            []string
	format, unit     string
	stamp            string
	fields           []string
	failIf           []string
	ladder           bool
	compare          string
	suggest, rule    string
	showKeys, asJSON bool
	html             string
	quiet            bool
}

func newSimulate() *cobra.Command {
	var f simulateFlags
	c := withExitStatus(&cobra.Command{
		Use:   "simulate [flags] <log>...",
		Short: "Show what limits would have done to the requests of access logs",
		Long: `simulate replays access logs through the rules of a policy, and says what they would have
denied: how much, when, and to whom. The engine of weir decides, by a clock that follows
the log.

Formats: Common and Combined, with or without virtual host, as Apache and nginx write
them; those of HAProxy, Envoy, Istio, Caddy, Traefik, Squid and Tomcat, of gin, chi, echo,
pino, Fastify, uWSGI, actix, Armeria and Rack, of AWS, Cloudflare and Google; W3C extended,
as IIS writes it; and any JSON, one object in a line, by --field. Most of the first thousand
lines decide about the format. What Docker, Kubernetes, syslog and collectors put around
lines is removed. Logs may be compressed by gzip or bzip2. Several are merged by time, and
"-" is standard input.

Behind a proxy, name the column that has the client, by --field address=extra.1 for the
first one after the agent, or by --field address=http_x_forwarded_for, which finds it. The
report says where addresses look like those of a proxy.

Where stamps are whole seconds, everything is decided twice: with all requests of a second
at its start, and spread evenly over it. The numbers are ranges then, such as 371–433.

A log does not have everything. A rule whose key, plan or cost is not in the log is listed
as not simulated, with the reason. A concurrency limit needs the duration of requests. A
final cost is found by the status in the log. Lines that are damaged or no requests are
counted and skipped; the report shows the first of each kind.

Keys are masked, since they may identify persons: an IPv4 address is shown as its /24.

Conditions of --fail-if and --suggest compare one of these by <, <=, > or >=:

  ` + strings.ReplaceAll(simulate.Metrics, "\n", "\n  "),
		Example: `  weir simulate --limit 60/minute access.log
  weir simulate --limit 5/minute --match 'POST /login' access.log.*.gz
  weir simulate --limit 'distinct 5/10m' --value name --field key.name=user app.log
  weir simulate --policy weir.yaml --html report.html access.log
  weir simulate --policy new.yaml --against old.yaml \
      --fail-if 'newly-denied > 0.1%' access.log
  weir simulate --limit 60/minute --suggest 'denied < 0.1%' access.log
  weir simulate --limit 60/minute --compare sliding-log access.log
  zstdcat access.log.zst | weir simulate --policy weir.yaml -
  weir simulate --policy weir.yaml --format jsonl \
      --field time=ts,address=client.ip,method=m,path=url,key.user=sub app.log`,
		Args: func(_ *cobra.Command, logs []string) error {
			if len(logs) == 0 {
				return errors.New("name a log, or - for standard input: weir simulate --limit " +
					"60/minute access.log")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string,
			cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}, `  0  the report was written
  1  a condition of --fail-if holds, in one of the readings at least
  2  a log, a policy or a flag cannot be used, or no rule was simulated; more than one in
     a hundred lines of a log are out of order; a log that is cut, also within its last
     line, or whose compression is damaged, after the report of what could be read`)
	flags := c.Flags()
	flags.StringVar(&f.policy, "policy", "", "the policy `file`")
	flags.StringVar(&f.against, "against", "",
		"a policy `file` to compare with, such as the one in force")
	flags.StringVar(&f.limit, "limit", "", "one `limit` in place of a policy, such as 60/minute "+
		"or 'token-bucket 100/minute burst 20'")
	flags.StringVar(&f.key, "key", "address",
		"who is counted under --limit: address, everybody, 'header X-Name', or the name of a "+
			"field key.NAME")
	flags.StringVar(&f.value, "value", "",
		"`what` a --limit such as 'distinct 5/10m' counts the different ones of, in the words of "+
			"--key")
	flags.StringArrayVar(&f.match, "match", nil,
		"requests to which --limit applies: a `pattern` such as 'POST /login' (may be repeated)")
	flags.StringVar(&f.format, "format", "auto",
		"the format of the logs: auto, "+strings.Join(accesslog.Formats(), ", "))
	flags.StringSliceVar(&f.fields, "field", nil,
		"where the log has something, as `what=name`: time, date, address, method, path, query, "+
			"request, host, status, bytes, duration, header.X, key.NAME, plan.NAME, cost.NAME, "+
			"or line, in JSON around lines; in JSON the name may be a path such as "+
			"request.headers.X-Tenant")
	flags.StringVar(&f.unit, "duration-unit", "",
		"the `unit` of durations: s, ms, us or ns; as the format or the name of the field has it "+
			"unless set")
	flags.StringVar(&f.stamp, "stamp", "",
		"the `instant` of a line: start or end of the request; as the format has it unless set")
	flags.StringArrayVar(&f.failIf, "fail-if", nil,
		"exit with 1 if a `condition` holds, such as 'denied > 1%' (may be repeated)")
	flags.BoolVar(&f.ladder, "ladder", false,
		"decide each rule alone by 0.25 to 8 times its limit, too")
	flags.StringVar(&f.compare, "compare", "",
		"also decide each rule alone by each `algorithm`, and count the decisions that an exact log "+
			"would have made otherwise: sliding-log")
	flags.StringVar(&f.suggest, "suggest", "",
		"find the lowest limit that meets a `condition`, such as 'denied < 0.1%'")
	flags.StringVar(&f.rule, "rule", "", "the rule of --suggest, if there are several")
	flags.StringVar(&f.html, "html", "", "write the report to `file` as a page, too")
	flags.BoolVar(&f.asJSON, "json", false, "write the report as JSON")
	flags.BoolVar(&f.showKeys, "show-keys", false, "show addresses and other keys as they are")
	flags.BoolVar(&f.quiet, "quiet", false, "show no progress")
	c.RegisterFlagCompletionFunc("policy", policyFiles)
	c.RegisterFlagCompletionFunc("against", policyFiles)
	c.RegisterFlagCompletionFunc("html",
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"html"}, cobra.ShellCompDirectiveFilterFileExt
		})
	c.RegisterFlagCompletionFunc("format",
		cobra.FixedCompletions(append(accesslog.Formats(), "auto"),
			cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("compare", cobra.FixedCompletions(
		[]string{simulate.Exact.String()}, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("stamp", cobra.FixedCompletions([]string{"start", "end"},
		cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("duration-unit",
		cobra.FixedCompletions([]string{"s", "ms", "us", "ns"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (f *simulateFlags) run(c *cobra.Command, logs []string) error {
	if os.Getenv("GOGC") == "" {
		// saves a third of the memory for 3% of the time: most memory has no pointers
		const percent = 25
		defer debug.SetGCPercent(debug.SetGCPercent(percent))
	}
	o, err := f.options(c, logs)
	if err != nil {
		return withoutFile(err)
	}
	conditions := make([]*simulate.Condition, len(f.failIf))
	for i, text := range f.failIf {
		if conditions[i], err = simulate.ParseCondition(text); err != nil {
			return fmt.Errorf("--fail-if %w", err)
		}
		if conditions[i].NeedsAgainst() && f.against == "" {
			return fmt.Errorf("--fail-if %q: needs --against, the policy to compare with", text)
		}
		if err := conditions[i].CheckRule(o.Policy); err != nil {
			return fmt.Errorf("--fail-if %w", err)
		}
	}
	if f.html != "" {
		if err := checkPage(f.html, append([]string{f.policy, f.against}, logs...)...); err != nil {
			return err
		}
	}
	if slices.Contains(logs, "-") {
		waitForTyping(c, "the log")
	}
	bar := newProgress(c.ErrOrStderr(), f.quiet)
	o.Progress = bar.show
	r, err := simulate.Do(c.Context(), o)
	bar.clear()
	if err != nil {
		return withoutFile(err)
	}
	if r.Requests == 0 {
		return errors.Join(errors.New("the logs have no requests"+whyNone(r)), incomplete(r))
	}
	if err := r.Disordered(); err != nil {
		return errors.Join(err, incomplete(r))
	}
	if err := f.write(c.OutOrStdout(), r); err != nil {
		return err
	}
	if len(r.Policy.Rules) == 0 {
		return errors.New("no rule was simulated, so nothing can be said of the policy")
	}
	err = fail(c.ErrOrStderr(), conditions, r)
	// figures of an incomplete log decide no condition
	if missing := incomplete(r); missing != nil {
		return missing
	}
	return err
}

// incomplete returns an error that names incomplete logs, or nil. Programs such as zcat and grep
// may print part of a log and then fail.
func incomplete(r *simulate.Report) error {
	var errs []error
	for _, l := range r.Logs {
		if l.Incomplete {
			errs = append(errs,
				fmt.Errorf("%s ends early or is damaged: the figures are of the part that could "+
					"be read", visible.Name(l.Name)))
		}
	}
	return errors.Join(errs...)
}

// withoutFile returns an error that names the missing file.
func withoutFile(err error) error {
	var path *fs.PathError
	if errors.Is(err, fs.ErrNotExist) && errors.As(err, &path) {
		return fmt.Errorf("there is no file %s: check the name", visible.Name(path.Path))
	}
	return err
}

// whyNone describes the lines of a log without requests.
func whyNone(r *simulate.Report) string {
	if r.Lines.Lines == 0 {
		return ": they are empty"
	}
	why := ": " + strings.Join(append([]string{simreport.Reading(r)}, simreport.Skipped(r)...),
		"; ")
	if !slices.ContainsFunc(r.Logs, func(l simulate.Log) bool {
		return accesslog.NamesFields(l.Format)
	}) {
		return why
	}
	switch r.Lines.Lines {
	case r.Lines.NoAddress:
		why += ": if the address is in a field of another name, say so by --field address=NAME"
	case r.Lines.NoRequest + r.Lines.Other:
		why += ": if the request is in fields of other names, say so by --field " +
			"method=NAME,path=NAME"
	}
	return why
}

// options returns the options for the flags.
func (f *simulateFlags) options(c *cobra.Command, logs []string) (o simulate.Options, err error) {
	switch {
	case f.policy == "" && f.limit == "":
		return o, errors.New("say which limits: --policy weir.yaml, or --limit 60/minute")
	case f.policy != "" && f.limit != "":
		return o, errors.New("--policy and --limit exclude each other: remove one")
	case f.policy != "" && (c.Flags().Changed("key") || f.value != "" || len(f.match) > 0):
		return o, errors.New("--key, --value and --match belong to --limit: a policy says them itself")
	case f.compare != "" && f.compare != simulate.Exact.String():
		return o, fmt.Errorf("--compare %s: write %v, which alone is exact in every window", f.compare,
			simulate.Exact)
	case f.rule != "" && f.suggest == "":
		return o,
			errors.New("--rule says for which rule --suggest finds a limit: add --suggest " +
				"'denied < 0.1%'")
	}
	seen := false
	for _, log := range logs {
		if log == "-" && seen {
			return o, errors.New("standard input can be read once: name - once")
		}
		seen = seen || log == "-"
	}
	o = simulate.Options{
		Logs: logs, Stdin: c.InOrStdin(), Ladder: f.ladder, Accuracy: f.compare != "",
		SuggestRule: f.rule, ShowKeys: f.showKeys,
	}
	if o.Log, err = f.logOptions(); err != nil {
		return o, err
	}
	if f.policy != "" {
		o.Policy, err = simulate.ReadPolicy(f.policy)
	} else {
		o.Policy, err = simulate.OneLimit(f.limit, f.key, f.value, f.match)
	}
	if err != nil {
		return o, err
	}
	if f.against != "" {
		if o.Against, err = simulate.ReadPolicy(f.against); err != nil {
			return o, err
		}
	}
	if f.suggest != "" {
		if o.Suggest, err = simulate.ParseCondition(f.suggest); err != nil {
			return o, fmt.Errorf("--suggest %w", err)
		}
	}
	return o, nil
}

func (f *simulateFlags) logOptions() (accesslog.Options, error) {
	o := accesslog.Options{Format: f.format, Fields: make(map[string]string)}
	for _, field := range f.fields {
		role, name, ok := strings.Cut(field, "=")
		if !ok || role == "" || name == "" {
			return o, fmt.Errorf("--field %s: write what=name, such as address=client.ip", field)
		}
		o.Fields[accesslog.Role(role)] = name
	}
	units := map[string]time.Duration{"": 0, "s": time.Second, "ms": time.Millisecond,
		"us": time.Microsecond,
		"ns": time.Nanosecond}
	unit, ok := units[f.unit]
	if !ok {
		return o, fmt.Errorf("--duration-unit %s: write s, ms, us or ns", f.unit)
	}
	stamps := map[string]accesslog.Stamp{
		"": accesslog.ByFormat, "start": accesslog.AtStart, "end": accesslog.AtEnd,
	}
	stamp, ok := stamps[f.stamp]
	if !ok {
		return o, fmt.Errorf("--stamp %s: write start or end", f.stamp)
	}
	o.Unit, o.Stamp = unit, stamp
	return o, nil
}

// write writes the report.
func (f *simulateFlags) write(out io.Writer, r *simulate.Report) error {
	if f.html != "" {
		if err := writePage(f.html, r); err != nil {
			return err
		}
	}
	if f.asJSON {
		return simreport.JSON(out, r)
	}
	return simreport.Text(out, r, func(heading string) string {
		return paintOf(out).as("heading", heading)
	})
}

// fail reports the conditions that hold.
func fail(errOut io.Writer, conditions []*simulate.Condition, r *simulate.Report) error {
	failed := false
	for _, c := range conditions {
		holds, got, err := c.MayHold(r)
		if err != nil {
			return fmt.Errorf("--fail-if %w", err)
		}
		if holds {
			fmt.Fprintf(errOut, "weir: %s (it is %s)\n", c, c.Got(got, r))
			failed = true
		}
	}
	if failed {
		return errFound
	}
	return nil
}
