package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/cmd/weir/internal/convert"
	"github.com/weir-go/weir/cmd/weir/internal/files"
	"github.com/weir-go/weir/cmd/weir/internal/nginxconf"
	simreport "github.com/weir-go/weir/cmd/weir/internal/report"
	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// convertFlags are the flags of convert.
type convertFlags struct {
	output string
	replay []string
	log    simulateFlags // format and fields of the logs
}

// sources are what convert reads.
var sources = []string{"nginx", "ingress-nginx"}

func newConvert() *cobra.Command {
	var f convertFlags
	c := withExitStatus(&cobra.Command{
		Use:   "convert [flags] nginx|ingress-nginx <file>...",
		Short: "Write a policy file with the limits of nginx or ingress-nginx",
		Long: `convert reads limits of another program and writes a policy file that means the same. A
comment says of each rule where it is from. What a policy cannot say is a mistake, with its
line and column; a warning says where weir differs on purpose.

  nginx          limit_req_zone, limit_req with burst, nodelay and delay, limit_conn, geo
                 and map for those who are not limited, and what includes have; also the
                 text that nginx -T prints, and files without http { }
  ingress-nginx  Ingresses with limit-rps, limit-rpm, limit-connections and the others, and
                 the ConfigMap of the controller, in YAML or JSON. Name all Ingresses:
                 their paths take requests from each other

"-" is standard input. The policy goes to standard output, mistakes and warnings do not.

--replay decides the requests of an access log of this nginx by the policy, and counts those
that nginx denied, by its limit_req_status, and the policy does not, and the other way
round. A log with $msec and $request_time says which they are. In whole seconds each request
is decided at the start of its second and spread over it, and numbers are ranges.`,
		Example: `  weir convert nginx /etc/nginx/nginx.conf > weir.yaml
  nginx -T | weir convert nginx - > weir.yaml
  weir convert --output weir.yaml --replay access.log nginx nginx.conf
  kubectl get ingress -A -o yaml | weir convert ingress-nginx - > weir.yaml
  weir convert ingress-nginx ingress.yaml configmap.yaml`,
		Args: func(_ *cobra.Command, args []string) error { return f.check(args) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string,
			cobra.ShellCompDirective) {
			if len(args) == 0 {
				return sources, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0], args[1:]) },
	}, `  0  the policy means what the files mean; there may be warnings
  1  there are mistakes, and the policy lacks what they say; or it decides requests of a
     log with milliseconds in another way
  2  a file or a flag cannot be used, or no limit could be converted`)
	flags := c.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "write the policy to `file`")
	flags.StringArrayVar(&f.replay, "replay", nil,
		"count the requests of this access `log` on which nginx and the policy differ (may be "+
			"repeated)")
	flags.StringVar(&f.log.format, "format", "auto", "the format of the logs: see weir simulate")
	flags.StringSliceVar(&f.log.fields, "field", nil,
		"where the logs have something, as `what=name`: see weir simulate")
	c.MarkFlagFilename("output", "yaml", "yml")
	return c
}

// check checks the arguments.
func (f *convertFlags) check(args []string) error {
	switch {
	case len(args) == 0 || !slices.Contains(sources, args[0]):
		return fmt.Errorf("say what to convert: weir convert nginx nginx.conf, or weir convert " +
			"ingress-nginx ingress.yaml")
	case len(args) == 1:
		return fmt.Errorf("name a file to convert, as in: weir convert %s %s", args[0],
			map[string]string{"nginx": "nginx.conf", "ingress-nginx": "ingress.yaml"}[args[0]])
	case args[0] == "nginx" && len(args) > 2:
		return errors.New("nginx has one configuration: name nginx.conf, which includes the others")
	}
	read := slices.Concat(args[1:], f.replay)
	if i := slices.Index(read, "-"); i >= 0 && slices.Contains(read[i+1:], "-") {
		return errors.New("standard input can be read once: name - once")
	}
	return nil
}

func (f *convertFlags) run(c *cobra.Command, from string, names []string) error {
	o, err := f.log.logOptions()
	if err != nil {
		return err
	}
	o.Stamp = accesslog.AtEnd // nginx writes a line when a request ends
	result, err := convertFiles(c, from, names)
	if err != nil {
		return err
	}
	mistakes := sayFindings(c.ErrOrStderr(), result)
	if result.Policy == nil {
		if mistakes > 0 {
			return fmt.Errorf("no limit could be converted: %s above", count(mistakes, "mistake"))
		}
		return fmt.Errorf("%s has no limits: there is nothing to convert",
			visible.Name(strings.Join(names, ", ")))
	}
	if f.output == "" {
		_, err = c.OutOrStdout().Write(result.Policy)
	} else {
		err = visible.Error(os.WriteFile(f.output, result.Policy, 0o666))
	}
	if err != nil {
		return err
	}
	differ := false
	if len(f.replay) > 0 {
		if differ, err = f.compare(c, result, o); err != nil {
			return err
		}
	}
	if mistakes > 0 || differ {
		return errFound
	}
	return nil
}

// convertFiles converts the named files.
func convertFiles(c *cobra.Command, from string, names []string) (*convert.Result, error) {
	var inputs []convert.Input
	for _, name := range names {
		shown, text, err := readInput(c, name)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, convert.Input{Name: shown, Text: text})
	}
	if from == "ingress-nginx" {
		return convert.Ingress(inputs...), nil
	}
	included := nginxconf.Files{
		Open: func(name string) (io.ReadCloser, error) { return files.Open(name) },
		Glob: filepath.Glob,
	}
	if names[0] != "-" {
		included.Dir = filepath.Dir(names[0])
	}
	return convert.Nginx(inputs[0].Name, inputs[0].Text, included), nil
}

// sayFindings prints mistakes and warnings, and returns the number of mistakes.
func sayFindings(out io.Writer, r *convert.Result) (mistakes int) {
	paint := paintOf(out)
	for _, one := range r.Findings {
		f := finding{File: one.File, Line: one.Line, Column: one.Column, Kind: mistake,
			Text: one.Text}
		if one.Warning {
			f.Kind = warning
		} else {
			mistakes++
		}
		fmt.Fprintln(out, paint.as(string(f.Kind), visible.Text(f.String())))
	}
	return mistakes
}

// compare decides the requests of logs by a policy, and reports whether it certainly differs from
// nginx.
func (f *convertFlags) compare(
	c *cobra.Command, result *convert.Result, o accesslog.Options,
) (bool, error) {
	p, err := simulate.ParsePolicy("the policy", result.Policy)
	if err != nil {
		return false, err
	}
	bar := newProgress(c.ErrOrStderr(), false)
	denials := append([]int{}, result.Denials...)
	r, err := simulate.Do(c.Context(), simulate.Options{Logs: f.replay, Stdin: c.InOrStdin(),
		Log: o, Policy: p,
		Denials: denials, Progress: bar.show})
	bar.clear()
	if err != nil {
		return false, withoutFile(err)
	}
	if r.Requests == 0 {
		return false, errors.Join(errors.New("the logs have no requests"+whyNone(r)), incomplete(r))
	}
	if err := errors.Join(r.Disordered(), incomplete(r)); err != nil {
		return false, err
	}
	if len(r.Policy.Rules) == 0 {
		return false, errors.New("no rule could be replayed: " + r.Policy.Skipped[0].Rule + ": " +
			r.Policy.Skipped[0].Why)
	}
	if r.Logged.Unknown > 0 && r.Logged.Unknown == r.Logged.Requests {
		return false, errors.New("the log has no status, by which nginx denied: name its field by " +
			"--field status=NAME")
	}
	out := c.ErrOrStderr()
	if f.output != "" {
		out = c.OutOrStdout()
	}
	return simreport.Logged(out, r, denials)
}
