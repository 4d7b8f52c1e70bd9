package xds

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-go/weir/gateway/descriptors"
)

// typeURL is the type of the resources that a client asks for.
const typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// documentsOf returns resources as files of limits, in the order of their names: a server may keep
// them in a map. The error has every resource that is none.
func documentsOf(resources []*anypb.Any) ([]descriptors.Document, error) {
	var documents []descriptors.Document
	var errs []error
	for i, resource := range resources {
		config := new(ratelimit.RateLimitConfig)
		if err := resource.UnmarshalTo(config); err != nil {
			errs = append(errs, fmt.Errorf("resource %d is no RateLimitConfig: %w", i+1, err))
			continue
		}
		name := cmp.Or(config.GetName(), config.GetDomain(), fmt.Sprintf("resource %d", i+1))
		fields := map[string]any{"domain": config.GetDomain()}
		if below := config.GetDescriptors(); len(below) > 0 {
			fields["descriptors"] = listOf(grouped(below), fieldsOf)
		}
		documents = append(documents, descriptors.Document{Name: name, Fields: fields})
	}
	slices.SortStableFunc(documents, func(a, b descriptors.Document) int {
		return cmp.Compare(a.Name, b.Name)
	})
	return documents, errors.Join(errs...)
}

// group is descriptors of one key and value, of which one at most has a limit.
type group struct {
	*ratelimit.RateLimitDescriptor // the one with the limit; what else a descriptor says is of its limit

	below []*ratelimit.RateLimitDescriptor // of all
}

// grouped returns a list of descriptors with those of one key and value as one. Envoy Gateway sends
// two if a policy limits each client of a range of addresses, and the range as a whole.
func grouped(list []*ratelimit.RateLimitDescriptor) (groups []*group) {
	type pair struct{ key, value string }
	known := make(map[pair]*group)
	for _, d := range list {
		of := pair{d.GetKey(), d.GetValue()}
		g := known[of]
		if g == nil || g.GetRateLimit() != nil && d.GetRateLimit() != nil {
			g = &group{RateLimitDescriptor: d}
			known[of] = g
			groups = append(groups, g)
		}
		if d.GetRateLimit() != nil {
			g.RateLimitDescriptor = d
		}
		g.below = append(g.below, d.GetDescriptors()...)
	}
	return groups
}

// listOf returns messages as a list of maps.
func listOf[M any](messages []M, fields func(M) map[string]any) (list []any) {
	for _, m := range messages {
		list = append(list, fields(m))
	}
	return list
}

// fieldsOf returns a descriptor as a file has it. In a message a field that is not set has its zero
// value.
func fieldsOf(d *group) map[string]any {
	fields := map[string]any{"key": d.GetKey()}
	if d.GetValue() != "" {
		fields["value"] = d.GetValue()
	}
	if limit := d.GetRateLimit(); limit != nil {
		fields["rate_limit"] = limitOf(limit)
	}
	if len(d.below) > 0 {
		fields["descriptors"] = listOf(grouped(d.below), fieldsOf)
	}
	for name, is := range map[string]bool{
		"shadow_mode": d.GetShadowMode(), "quota_mode": d.GetQuotaMode(),
		"detailed_metric": d.GetDetailedMetric(),
	} {
		if is {
			fields[name] = true
		}
	}
	if d.GetMetadata() != nil {
		fields["metadata"] = d.GetMetadata().AsMap()
	}
	return fields
}

// limitOf returns a limit as a file has it. 0 requests are a limit, and deny all.
func limitOf(l *ratelimit.RateLimitPolicy) map[string]any {
	fields := make(map[string]any)
	if l.GetUnlimited() {
		fields["unlimited"] = true
	} else {
		fields["requests_per_unit"] = l.GetRequestsPerUnit()
	}
	if unit := l.GetUnit(); unit != ratelimit.RateLimitUnit_UNKNOWN {
		fields["unit"] = strings.ToLower(unit.String())
	}
	if l.GetName() != "" {
		fields["name"] = l.GetName()
	}
	if len(l.GetReplaces()) > 0 {
		fields["replaces"] = listOf(l.GetReplaces(), func(r *ratelimit.RateLimitReplace) map[string]any {
			return map[string]any{"name": r.GetName()}
		})
	}
	return fields
}

// digestOf returns the SHA-256 of documents in hexadecimal. It does not depend on how a message
// orders its maps.
func digestOf(documents []descriptors.Document) string {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(documents); err != nil { // a number that is not finite
		h.Write([]byte(strconv.Quote(err.Error())))
	}
	return hex.EncodeToString(h.Sum(nil))
}
