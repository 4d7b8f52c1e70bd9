// Package descriptors limits by the descriptors of Envoy: lists of keys and values, such as
// ("tenant", "acme"), ("path", "/orders"), which a proxy sends and a file has limits for.
//
// The format of the file is that of github.com/envoyproxy/ratelimit, and so are the answers
// unless a file asks for more:
//
//	domain: shop
//	descriptors:
//	  - key: tenant
//	    rate_limit: {unit: minute, requests_per_unit: 100}
//	    descriptors:
//	      - key: path
//	        value: /orders*
//	        rate_limit: {unit: second, requests_per_unit: 5}
//
// A [Service] decides requests by a [Config]:
//
//	config, err := descriptors.Load("limits.yaml")
//	service, err := descriptors.New(config, descriptors.Options{})
//	answer, err := service.Decide(ctx, &descriptors.Request{Domain: "shop", Descriptors: ...})
//
// Package envoy serves it over gRPC and as JSON.
//
// # Matching
//
// The first entry of a descriptor is looked up among the descriptors of the domain, the
// second among those below what the first has found, and so on. On each level the exact
// pair is looked up first, then the values with wildcards in the order of the file, then
// the key without a value. Only the limit of the last entry counts, so a descriptor needs as
// many entries as the limit is deep. A descriptor without a limit is allowed.
//
// # Counting
//
// A limit by unit counts in a window, as the original does: a charge counts whether it fits
// or not, and what is above the limit ends with the window. So a request with a hits addend
// of 0 asks whether the window is over its limit, and a charge at the end of a stream may
// bring it there. A window that is exactly full is not over. Months and years are those of
// the calendar, in UTC; the original takes 30 and 365 days. With a unit_multiplier above 1, a
// window has as many units, and a month is 30 days.
//
// A backend with a denial cache, such as one of package redisbackend, is not asked for a key that is
// over its limit: until the wait is over, for ten seconds at most, the process answers by itself.
// Such a request is not counted. If units are then refunded, or the limit is raised, less stands in the way.
// What is remembered is how much of a window is used, so a changed limit is in force at once.
//
// Descriptors count apart from each other: one that is over keeps none of the others from
// being charged. The same descriptor twice in one request is charged twice, in order.
//
// # Extensions
//
// These fields are of weir, and the original refuses them:
//
//	algorithm       of rate_limit, in place of unit: any limit of weir, such as "sliding-window 100/30s"
//	hold_time       beside "concurrent 20": how long a request in flight is counted if its end is lost
//	holder          beside it: the key of the last entry, which names the request
//	unit_multiplier of rate_limit: how many units a window has, as in limits of Envoy 1.40
//	budget, weight  of a descriptor, in place of rate_limit: the name of a limit above, and what a hit costs
//	prices          of the file: names of weights, which may change at dates
//	rate_limits     of a descriptor, in place of rate_limit: a list, of which every limit counts
//	all_or_nothing  of the file: a request that one limit denies is charged to none
//	on_failure      of the file: fall-back (the default), open or closed, while the backend fails
//
// A limit with an algorithm takes nothing from a request that it denies. A hits addend of 0
// is over if not one unit is left.
//
// # Requests in flight
//
// The limit "concurrent 20" counts what runs. A request takes a unit, and a descriptor with Refund and
// the same entries returns it at the end, to any Service on the backend. It returns nothing unless the
// holder has a unit. A unit whose end is lost ends after the hold time. The backend must be a
// [backends.Lender].
//
// # Budgets
//
// A descriptor with a budget charges the limit of that name above it, under the key of that limit. A
// hit costs as many units as its weight says: a number with at most three decimals, or the name of a
// price of any file. A charge is exact in thousandths and rounded up, a refund is rounded down.
//
// # Bounds
//
// A client chooses the values of entries, and a proxy may let a request pass that is answered with an
// error. So no value refuses a request: a list of entries above 1,024 bytes counts by its digest, and
// an addend above 1,000,000,000, which no limit allows, counts as 1,000,000,001.
//
// A descriptor that breaks the protocol is not counted; the others of the request are, and a line a
// minute is logged. It has no entries or an empty key, or a limit of its own that has no unit, or
// whose window is longer than 366 days. So is one with a limit in a file with all_or_nothing, and a
// refund of a limit that is not by unit. If all descriptors of a request are such, or if there are
// more than 64, Decide returns an [Invalid] error. The configuration of the proxy decides these.
//
// A proxy may bring a limit of its own with a descriptor. It counts in the window of a limit of the
// file by the same units, and one above 499,999,999 counts as that.
//
// The limits of a rule have a scope of their own, so a flood of values under one rule displaces
// hardly a key of another from a full memory. Two rules share a scope with a chance of 1 in 4,096. A
// flood under up to 51 rules at once denies new clients of those rules alone. Under more, it also
// denies new clients of some others: of one rule in seven under 60, of one in two under 100.
package descriptors
