package descriptors_test

import (
	"context"
	"fmt"
	"log"

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
