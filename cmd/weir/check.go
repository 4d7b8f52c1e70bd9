package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/policy"
)

// checkOptions are the flags of check.
type checkOptions struct {
	cases  []string
	strict bool
	json   bool
}

func newCheck() *cobra.Command {
	var o checkOptions
	c := withExitStatus(&cobra.Command{
		Use:   "check [flags] <file or directory>...",
		Short: "Report every mistake of policy files, and test them by cases",
		Long: `check reports every mistake of policy files, each with its line, its column and what to
write instead. "-" is standard input. What the program supplies is taken for granted: a
test beside the program finds names that it does not supply. It reads files of limits by
descriptors, in the format of envoyproxy/ratelimit, as well. A directory stands for its
files whose names end in .yaml or .yml, as for weir serve.

It warns of what is allowed and perhaps not meant: keys that a client is free to change,
such as a header, if no other rule stops it; addresses that clients choose; overrides that
have ended. A header that a gateway sets is no danger. To say so, let the program supply
the key under a name, and use the name in the file.

--cases names a file with requests, and the rules that each must meet: these and no
others. Rules with mode: shadow are among them. Values under program stand for what the
functions of the program return for the request.

  cases:
    - request: POST /login
      address: 203.0.113.7
      rules:
        failures: {key: 203.0.113.7, limit: ban 10/10m for 1m}
        service:
    - name: a customer's report
      request: GET /reports/7
      headers: {X-Tenant: acme}
      program: {customer: ann, plan: pro}
      rules:
        per-customer: {key: "customer:ann", limit: 100/minute, cost: 5, mode: enforce}

A case has request and rules, and may have name, host, address, headers, program, and
route, which is the route that a framework has chosen. The address is that of the peer,
192.0.2.1 unless set: of the client, or of the nearest proxy. A rule may have any of key,
limit, cost and mode. A key that the policy joins is a list, as in [203.0.113.7, acme], and
"" is the key of a request that has none.`,
		Example: `  weir check weir.yaml
  weir check --strict policies/*.yaml
  weir check limits/
  weir check --cases cases.yaml weir.yaml
  helm template . | yq '.data."weir.yaml"' | weir check -`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return errors.New("name a policy file, as in: weir check weir.yaml")
			case len(args) > 1 && len(o.cases) > 0:
				return errors.New("cases are of one policy: name one file, or leave out --cases")
			}
			return nil
		},
		ValidArgsFunction: policyFiles,
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}, `  0  there are no mistakes, and all cases hold; there may be warnings
  1  there are mistakes, or cases that fail, or warnings with --strict
  2  a file cannot be read, or the command line has a mistake`)
	c.Flags().StringArrayVar(&o.cases, "cases", nil,
		"test the policy by the cases of `file`; may be there several times")
	c.Flags().BoolVar(&o.strict, "strict", false,
		"take warnings for mistakes: the exit status is 1")
	c.Flags().BoolVar(&o.json, "json", false,
		"print JSON: findings with file, line, column, kind, rule, field and text")
	c.MarkFlagFilename("cases", "yaml", "yml", "json")
	return c
}

// report holds the findings of check in order, and a line on each file.
type report struct {
	Findings []finding `json:"findings"`
	lines    []string
	limits   []descriptors.File // by descriptors: one may have prices for all
	failed   error              // a file could not be read
}

func (o *checkOptions) run(c *cobra.Command, files []string) error {
	r := &report{Findings: []finding{}}
	var read []descriptors.File
	names, err := filesOf(files)
	if err != nil {
		return err
	}
	for _, name := range names {
		shown, text, err := readInput(c, name)
		if err != nil {
			r.failed = errors.Join(r.failed, err)
			continue
		}
		f := descriptors.File{Name: shown, Text: text}
		if read = append(read, f); descriptors.Recognize(text) {
			r.limits = append(r.limits, f)
		}
	}
	for _, f := range read {
		o.check(c, r, f.Name, f.Text)
	}
	if err := r.print(c.OutOrStdout(), o.json); err != nil {
		return err
	}
	for _, f := range r.Findings {
		if r.failed == nil && (f.Kind != warning || o.strict) {
			return errFound
		}
	}
	return r.failed
}

// filesOf returns the names of files, in place of a directory those that it has.
func filesOf(names []string) (all []string, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || !info.IsDir() {
			all = append(all, name)
			continue
		}
		limits, policies, err := descriptors.Sort(name)
		if err != nil {
			return nil, visible.Error(err)
		}
		all = append(all, slices.Sorted(slices.Values(append(limits, policies...)))...)
	}
	return all, nil
}

// check checks one policy and runs its cases.
func (o *checkOptions) check(c *cobra.Command, r *report, shown string, text []byte) {
	if descriptors.Recognize(text) {
		o.checkDescriptors(r, shown)
		return
	}
	t, err := newTrial(shown, text)
	if err != nil {
		mistakes := policy.Mistakes(err)
		if mistakes == nil {
			r.failed = errors.Join(r.failed, err)
			return
		}
		r.sayMistakes(shown, mistakes)
		return
	}
	line := fmt.Sprintf("%s: %s, no mistakes", visible.Name(shown), count(len(t.rules), "rule"))
	if n := len(t.outline.Warnings); n > 0 {
		line += ", " + count(n, "warning")
	}
	r.say("%s", line)
	for _, w := range t.outline.Warnings {
		r.Findings = append(r.Findings, findingOf(warning, w))
	}
	for _, name := range o.cases {
		runCases(c, r, t, name)
	}
}

// checkDescriptors checks a file of limits by descriptors, together with the others.
func (o *checkOptions) checkDescriptors(r *report, shown string) {
	if len(o.cases) > 0 {
		r.failed = errors.Join(r.failed,
			fmt.Errorf("%s has limits by descriptors: cases belong to a policy", visible.Name(shown)))
		return
	}
	_, err := descriptors.Parse(r.limits...)
	var mistakes []*policy.Mistake
	for _, m := range descriptors.Mistakes(err) {
		if m.File == shown {
			mistakes = append(mistakes, m)
		}
	}
	if mistakes == nil {
		r.say("%s: limits by descriptors, no mistakes", visible.Name(shown))
		return
	}
	r.sayMistakes(shown, mistakes)
}

// sayMistakes notes the mistakes of a file.
func (r *report) sayMistakes(shown string, mistakes []*policy.Mistake) {
	for _, m := range mistakes {
		r.Findings = append(r.Findings, findingOf(mistake, m))
	}
	r.say("%s: %s", visible.Name(shown), count(len(mistakes), "mistake"))
}

// runCases tests a policy by the cases of a file.
func runCases(c *cobra.Command, r *report, t *trial, name string) {
	shown, text, err := readInput(c, name)
	if err != nil {
		r.failed = errors.Join(r.failed, err)
		return
	}
	cases, findings := readCases(shown, text, t)
	if len(findings) > 0 {
		r.Findings = append(r.Findings, findings...)
		r.say("%s: %s, so no case was run", visible.Name(shown), count(len(findings), "mistake"))
		return
	}
	failing := 0
	for _, one := range cases {
		found := runCase(shown, t, one)
		r.Findings = append(r.Findings, found...)
		if len(found) > 0 {
			failing++
		}
	}
	if failing > 0 {
		verb := "fail"
		if failing == 1 {
			verb = "fails"
		}
		r.say("%s: %d of %s %s", visible.Name(shown), failing, count(len(cases), "case"), verb)
		return
	}
	r.say("%s: %s, all hold", visible.Name(shown), count(len(cases), "case"))
}

func (r *report) say(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// print writes the findings and the result for each file.
func (r *report) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return visible.JSON(out, r)
	}
	var text strings.Builder
	paint := paintOf(out)
	for _, f := range r.Findings {
		text.WriteString(paint.as(string(f.Kind), visible.Text(f.String())) + "\n")
	}
	for _, line := range r.lines {
		text.WriteString(visible.Text(line) + "\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}
