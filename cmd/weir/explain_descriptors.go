package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
	"github.com/weir-go/weir/gateway/descriptors"
)

// explainedDescriptor is what a file of limits by descriptors has for one.
type explainedDescriptor struct {
	Descriptor string   `json:"descriptor"`
	Domain     string   `json:"domain,omitempty"` // "": the files have one
	Rule       string   `json:"rule,omitempty"`   // "": there is no limit for it
	Limits     []string `json:"limits,omitempty"` // none, and a rule: it is unlimited
	Shadow     bool     `json:"shadow,omitempty"`
	Quota      bool     `json:"quota,omitempty"`
	Together   []string `json:"together,omitempty"`
}

// explainedDescriptors are the descriptors of a command line, in its order.
type explainedDescriptors []explainedDescriptor

// explainDescriptors looks descriptors up in a file of limits.
func explainDescriptors(
	c *cobra.Command, file string, wanted []string,
) (all explainedDescriptors, err error) {
	read, err := readLimits(c, file)
	if err != nil {
		return nil, err
	}
	config, err := descriptors.Parse(read...)
	if mistakes := descriptors.Mistakes(err); mistakes != nil {
		return nil, fmt.Errorf("the file has %s, so nothing can be said of it:\n%w",
			count(len(mistakes), "mistake"), err)
	} else if err != nil {
		return nil, err
	}
	for _, text := range wanted {
		entries, err := parseDescriptor(text)
		if err != nil {
			return nil, fmt.Errorf("--descriptor: %w", err)
		}
		all = append(all, explainDescriptor(config, text, entries)...)
	}
	return all, nil
}

// explainDescriptor returns what each domain has for a descriptor, or that none has a limit.
func explainDescriptor(
	config *descriptors.Config, text string, entries []descriptors.Entry,
) (all explainedDescriptors) {
	domains := config.Domains()
	for _, domain := range domains {
		e, ok := config.Explain(domain, entries)
		if !ok {
			continue
		}
		one := explainedDescriptor{
			Descriptor: text, Rule: e.Rule, Limits: e.Limits, Shadow: e.Shadow, Quota: e.Quota, Together: e.Together,
		}
		if len(domains) > 1 {
			one.Domain = domain
		}
		all = append(all, one)
	}
	if all == nil {
		all = explainedDescriptors{{Descriptor: text}}
	}
	return all
}

// readLimits reads a file of limits, or all of a directory: prices have a file of their own.
func readLimits(c *cobra.Command, file string) ([]descriptors.File, error) {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return descriptors.Read(file)
	}
	shown, text, err := readInput(c, file)
	return []descriptors.File{{Name: shown, Text: text}}, err
}

// print writes a line for each descriptor, or JSON.
func (all explainedDescriptors) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return visible.JSON(out, all)
	}
	var b strings.Builder
	for _, one := range all {
		fmt.Fprintf(&b, "%s: %s\n", one.Descriptor, one.text())
	}
	_, err := io.WriteString(out, visible.Text(b.String()))
	return err
}

// text returns what is said of d.
func (d *explainedDescriptor) text() string {
	if d.Rule == "" {
		return "no limit"
	}
	text := "unlimited"
	if len(d.Limits) > 0 {
		text = strings.Join(d.Limits, " and ")
	}
	text += " by rule " + d.Rule
	if d.Domain != "" {
		text += " of the domain " + d.Domain
	}
	if d.Shadow {
		text += ", in shadow mode"
	}
	if d.Quota {
		text += ", in quota mode"
	}
	if len(d.Together) > 0 {
		text += ", together with all of " + strings.Join(d.Together, " and ")
	}
	return text
}

// parseDescriptor reads entries such as "tenant=acme,path=/orders".
func parseDescriptor(text string) (entries []descriptors.Entry, err error) {
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("a descriptor has keys and values, such as tenant=acme,path=/orders (got %.80q)", text)
		}
		entries = append(entries, descriptors.Entry{Key: key, Value: value})
	}
	return entries, nil
}
