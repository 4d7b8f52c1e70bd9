package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	policy, url, limiter string
	address, host, route string
	header               []string
	headers              string
	program              []string
	descriptors          []string
	credentials          string
	json                 bool
}

// pageTime is the time limit for an answer of a page.
const pageTime = 10 * time.Second

func newExplain() *cobra.Command {
	var o explainOptions
	c := withExitStatus(&cobra.Command{
		Use:   "explain (--policy <file> | --url <page>) [flags] [<method>] <path>",
		Short: "Explain what the rules do to a request",
		Long: `explain says which rules apply to a request, with the key, the limit and the cost of each,
and why the others do not apply. It takes nothing from any limit.

--policy explains by a policy file. --program says what functions of the program would
return for the request. A key or plan that it does not give is absent, and a cost that it
does not give is 1.

--url asks a running program, by its operator's page (package admin): which rules apply
there, and how much is left. A page answers this for limiters of net/http and chi, and
masks keys unless it is set up otherwise.

--policy and --url together find keys and limits by the file, and the page says how much
is left for these keys. This works for every framework, and with --program.

--descriptor asks a file of limits by descriptors, in the format of envoyproxy/ratelimit,
which limit a descriptor has.

The method is GET unless there is one. The path may be a URL, which names the host, too.

Do not write secrets into a command line: other users of the machine see it, and shells
keep it. --headers reads header fields from a file. --credentials does, too: it has what
the page wants to know of you, such as "Authorization: Bearer …", one field in a line.
Without --credentials, the environment variable WEIR_CREDENTIALS has the same.`,
		Example: `  weir explain --policy weir.yaml POST /login
  weir explain --policy weir.yaml --address 203.0.113.7 --header 'X-Tenant: acme' /items
  weir explain --policy weir.yaml --program customer=ann --program plan=pro /reports/7
  weir explain --policy limits.yaml --descriptor tenant=acme,path=/orders
  weir explain --url http://127.0.0.1:8081 --headers customer.txt GET /reports/7
  weir explain --url https://ops.example.com/limits/ --credentials ~/.weir-ops \
    --policy weir.yaml --program customer=ann GET /reports/7`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(o.descriptors) > 0 && (len(args) > 0 || o.policy == "" || o.url != ""):
				return errors.New("--descriptor needs a file of limits, and no request, as in: " +
					"weir explain --policy limits.yaml --descriptor tenant=acme")
			case len(o.descriptors) > 0:
			case len(args) == 0 || len(args) > 2:
				return fmt.Errorf("name one request, as in: weir explain --policy weir.yaml "+
					"POST /login (got %d arguments)",
					len(args))
			case o.policy == "" && o.url == "":
				return errors.New("whose rules? Name a policy file by --policy, or the page of " +
					"a running program by --url")
			case o.url == "" && (o.credentials != "" || o.limiter != ""):
				return errors.New("--credentials and --limiter are for a page: name it by " +
					"--url, or leave them out")
			case o.policy == "" && len(o.program) > 0:
				return errors.New("--program needs --policy: a running program calls its own " +
					"functions")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string,
			cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"GET", "POST", "PUT", "PATCH", "DELETE"},
				cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}, `  0  the request would be allowed
  1  it would be denied, or a rule cannot be applied to it
  2  a file has a mistake or cannot be read, the page does not answer, or the command
     line has a mistake`)
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.policy, "policy", "",
		"find rules, keys and limits by the policy in `file`; - is standard input")
	f.StringVar(&o.url, "url", "", "ask the operator's page at `address` what is left")
	f.StringVar(&o.limiter, "limiter", "", "the `name` of a limiter of the page, if it has several")
	f.StringVar(&o.credentials, "credentials", "",
		"send the page the header fields in `file`; otherwise those in WEIR_CREDENTIALS")
	f.StringVar(&o.address, "address", "",
		"the `IP` address of the peer: the client, or the nearest proxy (default 192.0.2.1)")
	f.StringVar(&o.host, "host", "", "the `name` of the host that the request is for (default "+
		"localhost)")
	f.StringArrayVar(&o.header, "header", nil,
		"a header `field` of the request, such as 'X-Tenant: acme'; may be there several times")
	f.StringVar(&o.headers, "headers", "",
		"more header fields, one in a line of `file`; - is standard input")
	f.StringVar(&o.route, "route", "", "the route that the framework has chosen, such as "+
		"`/users/:id`")
	f.StringArrayVar(&o.program, "program", nil,
		"what a function of the program returns, such as `customer=ann`; may be there several times")
	f.StringArrayVar(&o.descriptors, "descriptor", nil,
		"a descriptor, such as `tenant=acme,path=/orders`; may be there several times")
	f.BoolVar(&o.json, "json", false, "print JSON: request, verdict, notes, and rules with "+
		"applies, why, key, limit, cost, left and more")
	c.MarkFlagFilename("policy", "yaml", "yml", "json")
	c.RegisterFlagCompletionFunc("program", o.completeProgram)
	for _, name := range []string{"url", "limiter", "address", "host", "header", "route", "descriptor"} {
		c.RegisterFlagCompletionFunc(name, noFiles)
	}
	return c
}

// completeProgram completes the names that the policy declares.
func (o *explainOptions) completeProgram(
	c *cobra.Command, _ []string, _ string,
) (names []string, _ cobra.ShellCompDirective) {
	if o.policy != "" && o.policy != "-" {
		if t, err := loadTrial(c, o.policy); err == nil {
			for _, name := range slices.Concat(t.outline.Keys, t.outline.Plans, t.outline.Costs) {
				names = append(names, name+"=")
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func (o *explainOptions) run(c *cobra.Command, args []string) error {
	if len(o.descriptors) > 0 {
		all, err := explainDescriptors(c, o.policy, o.descriptors)
		if err != nil {
			return err
		}
		return all.print(c.OutOrStdout(), o.json)
	}
	if o.policy == "-" && o.headers == "-" {
		return errors.New("--policy and --headers cannot both be standard input: name a file " +
			"for one")
	}
	m, err := o.request(c, args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), pageTime)
	defer cancel()
	var e *explanation
	if o.policy == "" {
		e, err = o.askPage(ctx, c, m)
	} else {
		e, err = o.askPolicy(ctx, c, m)
	}
	if err != nil {
		return err
	}
	if err := e.print(c.OutOrStdout(), o.json); err != nil {
		return err
	}
	if e.Verdict != allowed {
		return errFound
	}
	return nil
}

// request returns the request of the command line.
func (o *explainOptions) request(c *cobra.Command, args []string) (*madeUp, error) {
	m, err := parseRequest(strings.Join(args, " "))
	if err != nil {
		return nil, err
	}
	if _, err := parseAddress(o.address); err != nil {
		return nil, fmt.Errorf("--address: %w", err)
	}
	m.Address, m.Route = o.address, o.route
	for _, text := range o.header {
		name, value, err := parseField(text)
		if err == nil && isSecretField(name) {
			err = secretInFlag(name)
		}
		if err != nil {
			return nil, fmt.Errorf("--header: %w", err)
		}
		m.add(name, value)
	}
	if o.headers != "" {
		shown, text, err := readInput(c, o.headers)
		if err == nil {
			err = parseFields(text, m.add)
		}
		if err != nil {
			return nil, fmt.Errorf("--headers: %s: %w", visible.Name(shown), err)
		}
	}
	m.Host = cmp.Or(o.host, m.Host)
	_, err = m.build(c.Context())
	return m, err
}

func secretInFlag(name string) error {
	return fmt.Errorf("%s is a credential, and others see command lines: write the field into a "+
		"file for --headers", name)
}

// askPolicy explains by a file. If there is a page, it adds the remaining quotas from the page.
func (o *explainOptions) askPolicy(
	ctx context.Context, c *cobra.Command, m *madeUp,
) (*explanation, error) {
	t, err := loadTrial(c, o.policy)
	if err != nil {
		return nil, err
	}
	for _, text := range o.header {
		if name, _, _ := parseField(text); t.readsSecret(name) {
			return nil, fmt.Errorf("--header: %w", secretInFlag(name))
		}
	}
	given := make(map[string]string)
	for _, text := range o.program {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil,
				fmt.Errorf("--program: a value is a name, = and what the function returns, such "+
					"as customer=ann (got %.80q)", text)
		}
		err := t.oneValue(value)
		if err == nil {
			err = t.checkValue(name, value)
		}
		if err != nil {
			return nil, fmt.Errorf("--program: %w", err)
		}
		given[name] = value
	}
	answers, err := t.ask(m, given)
	if err != nil {
		return nil, err
	}
	e := t.explain(m, answers, given)
	if o.url == "" {
		return e, nil
	}
	p, err := o.page(c)
	if err != nil {
		return nil, err
	}
	return e, p.askKeys(ctx, o.limiter, e, answers, t.policy.Digest())
}

// askPage explains by a page without a file.
func (o *explainOptions) askPage(
	ctx context.Context, c *cobra.Command, m *madeUp,
) (*explanation, error) {
	p, err := o.page(c)
	if err != nil {
		return nil, err
	}
	return p.askRequest(ctx, o.limiter, m)
}

// page returns the page at --url.
func (o *explainOptions) page(c *cobra.Command) (*page, error) {
	from, text := "WEIR_CREDENTIALS", []byte(os.Getenv("WEIR_CREDENTIALS"))
	if o.credentials != "" {
		var err error
		if from, text, err = readInput(c, o.credentials); err != nil {
			return nil, fmt.Errorf("--credentials: %w", err)
		}
	}
	header := make(http.Header)
	if err := parseFields(text, header.Add); err != nil {
		return nil, fmt.Errorf("%s: %w", visible.Name(from),
			errors.New("must have header fields, one in a line, such as Authorization: Bearer …"))
	}
	return newPage(o.url, header)
}
