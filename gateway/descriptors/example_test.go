package descriptors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/weir-go/weir/gateway/descriptors"
)

func Example() {
	config, err := descriptors.Parse(descriptors.File{Name: "limits.yaml", Text: []byte(`
domain: shop
descriptors:
  - key: tenant
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: tenant
    value: acme
    rate_limit: {unit: day, requests_per_unit: 1000}
`)})
	if err != nil {
		log.Fatal(err) // every mistake, one in a line
	}
	service := descriptors.MustNew(config, descriptors.Options{})
	for _, tenant := range []string{"acme", "small", "small", "small"} {
		answer, err := service.Decide(context.Background(), &descriptors.Request{
			Domain:      "shop",
			Descriptors: []descriptors.Descriptor{{Entries: []descriptors.Entry{{Key: "tenant", Value: tenant}}}},
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tenant, answer.Over, answer.Statuses[0].Remaining)
	}
	// Output:
	// acme false 999
	// small false 1
	// small false 0
	// small true 0
}

// A directory may have a policy file beside limits.
func ExampleSort() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte("version: 1\nrules: []\n"), 0o600)
	os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte("domain: shop\n"), 0o600)
	limits, policies, err := descriptors.Sort(dir)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(filepath.Base(limits[0]), filepath.Base(policies[0]))
	// Output:
	// shop.yaml weir.yaml
}

// The limits change, and are read at once.
func ExampleWatcher_Reload() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	write := func(name, text string) { os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	write("shop.yaml", "domain: shop\n")
	service, watcher, err := descriptors.NewWatcher([]string{dir}, descriptors.Options{
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(service.Domains())
	write("shop.yaml", "domain: market\n")
	watcher.Reload()
	fmt.Println(service.Domains())
	// Output:
	// [shop]
	// [market]
}

// The limits are in a database, as JSON.
func ExampleParseDocuments() {
	var fields map[string]any
	err := json.Unmarshal([]byte(`{"domain": "shop", "descriptors": [
		{"key": "tenant", "rate_limit": {"unit": "day", "requests_per_unit": 0}}]}`), &fields)
	if err != nil {
		log.Fatal(err)
	}
	config, err := descriptors.ParseDocuments(descriptors.Document{Name: "row 7", Fields: fields})
	if err != nil {
		log.Fatal(err)
	}
	e, _ := config.Explain("shop", []descriptors.Entry{{Key: "tenant", Value: "acme"}})
	fmt.Println(e.Rule, e.Limits)
	// Output:
	// tenant [0/day]
}

// The limits come later than the first request.
func ExampleAwaited() {
	service := descriptors.MustNew(descriptors.Awaited(), descriptors.Options{})
	ask := func() error {
		_, err := service.Decide(context.Background(), &descriptors.Request{
			Domain:      "shop",
			Descriptors: []descriptors.Descriptor{{Entries: []descriptors.Entry{{Key: "tenant", Value: "acme"}}}},
		})
		return err
	}
	fmt.Println(errors.Is(ask(), descriptors.ErrUnavailable))
	config, err := descriptors.ParseDocuments() // none, so all is allowed
	if err != nil {
		log.Fatal(err)
	}
	service.Replace(config)
	fmt.Println(ask())
	// Output:
	// true
	// <nil>
}

// A program logs what denies, without the values of requests.
func ExampleEvent() {
	config, err := descriptors.Parse(descriptors.File{Name: "shop.yaml", Text: []byte(`
domain: shop
descriptors:
  - {key: tenant, rate_limit: {unit: day, requests_per_unit: 0}}
`)})
	if err != nil {
		log.Fatal(err)
	}
	service := descriptors.MustNew(config, descriptors.Options{
		Observe: func(_ context.Context, e descriptors.Event) {
			if e.Err == nil && e.Over {
				fmt.Println("denied by", e.Rule, "of", e.Domain)
			}
		},
	})
	service.Decide(context.Background(), &descriptors.Request{
		Domain:      "shop",
		Descriptors: []descriptors.Descriptor{{Entries: []descriptors.Entry{{Key: "tenant", Value: "acme"}}}},
	})
	// Output:
	// denied by tenant of shop
}

func ExampleSchema() {
	var schema struct {
		Title string
	}
	fmt.Println(json.Unmarshal(descriptors.Schema(), &schema), schema.Title)
	// Output: <nil> weir limits by descriptors
}
