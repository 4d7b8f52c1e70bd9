package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
	"github.com/weir-go/weir/gateway/descriptors"
)

// explainedDescriptor is what a file of limits by descriptors has for one.
type explainedDescriptor struct {
	Descriptor string   `json:"descriptor"`
	Rule       string   `json:"rule,omitempty"`   // "": there is no limit for it
	Limits     []string `json:"limits,omitempty"` // none, and a rule: it is unlimited
	Shadow     bool     `json:"shadow,omitempty"`
	Quota      bool     `json:"quota,omitempty"`
	Together   []string `json:"together,omitempty"`
}

// runDescriptors explains what a file of limits by descriptors has for some.
func (o *explainOptions) runDescriptors(c *cobra.Command) error {
	shown, text, err := readInput(c, o.policy)
	if err != nil {
		return err
	}
	config, err := descriptors.Parse(descriptors.File{Name: shown, Text: text})
	if mistakes := descriptors.Mistakes(err); mistakes != nil {
		return fmt.Errorf("the file has %s, so nothing can be said of it:\n%w", count(len(mistakes), "mistake"), err)
	} else if err != nil {
		return err
	}
	var all []explainedDescriptor
	for _, text := range o.descriptors {
		entries, err := parseDescriptor(text)
		if err != nil {
			return fmt.Errorf("--descriptor: %w", err)
		}
		one := explainedDescriptor{Descriptor: text}
		if e, ok := config.Explain(config.Domains()[0], entries); ok {
			one.Rule, one.Limits, one.Shadow, one.Quota, one.Together = e.Rule, e.Limits, e.Shadow, e.Quota, e.Together
		}
		all = append(all, one)
	}
	if o.json {
		return visible.JSON(c.OutOrStdout(), all)
	}
	var b strings.Builder
	for _, one := range all {
		fmt.Fprintf(&b, "%s: %s\n", one.Descriptor, one.text())
	}
	_, err = io.WriteString(c.OutOrStdout(), visible.Text(b.String()))
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
