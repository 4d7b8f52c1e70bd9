package descriptors_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/gateway/descriptors"
)

const spending = `
prices:
  large-input: 2.5
  large-output:
    - weight: 10
    - {weight: 20.001, from: 2000-01-02}
    - {weight: 0, from: "2000-01-03T02:00:00+02:00"}
descriptors:
  - key: team
    rate_limit: {name: team, unit: month, requests_per_unit: 100}
    descriptors:
      - {key: input, value: large, budget: team, weight: large-input}
      - {key: output, value: large, budget: team, weight: large-output}
      - {key: input, value: small, budget: team, weight: 0.001}
      - {key: output, budget: team, weight: 1000000}
      - key: project
        rate_limit: {name: project, algorithm: fixed-window 10/day}
        descriptors:
          - {key: input, budget: team, weight: 1}
          - {key: output, budget: project, weight: 1.5}
  - key: tried
    shadow_mode: true
    rate_limit: {name: tried, unit: month, requests_per_unit: 1}
    descriptors:
      - {key: input, budget: tried, weight: 1}
`

var budgets = []example{
	{"models charge one budget, each by its weight", spending, []string{
		"team=a input=large +4", "ok: 90 of 100/month", "team=a output=large +3", "ok: 60 of 100/month",
		"team=b input=large +4", "ok: 90 of 100/month", "team=a +0", "ok: 60 of 100/month",
	}},
	{"each charge is rounded up", spending, []string{
		"team=a input=large", "ok: 97 of 100/month", "team=a input=small", "ok: 96 of 100/month",
		"team=a input=small +1000", "ok: 95 of 100/month", "team=a input=small +1001", "ok: 93 of 100/month",
	}},
	{"over the budget is over, whichever model", spending, []string{
		"team=a output=large +11", "OVER: 0 of 100/month", "team=a +0", "OVER: 0 of 100/month",
		"team=a input=small", "OVER: 0 of 100/month", "team=a input=large +0", "OVER: 0 of 100/month",
		"team=b input=small", "ok: 99 of 100/month",
	}},
	{"two models in one request charge one after the other", spending, []string{
		"team=a input=large +4 ; team=a output=large +8", "ok: 90 of 100/month, 10 of 100/month",
		"team=a input=large +4 ; team=a output=large +1", "OVER: ok 0 of 100/month, OVER 0 of 100/month",
	}},
	{"more than any budget is charged as that", spending, []string{
		"team=a output=x +4294967296", "OVER: 0 of 100/month",
		"team=a output=x +18446744073709551615", "OVER: 0 of 100/month",
	}},
	{"a refund has its weight", spending, []string{
		"team=a output=large +8", "ok: 20 of 100/month", "team=a output=large -3", "ok: 50 of 100/month",
	}},
	{"a refund is rounded down, so it returns no more than was charged", spending, []string{
		"team=a input=small +2000", "ok: 98 of 100/month", "team=a input=small -1", "ok: 98 of 100/month",
		"team=a input=small -1001", "ok: 99 of 100/month", "team=a input=small -999", "ok: 99 of 100/month",
		"team=a project=p input=x +0", "ok: 99 of 100/month",
	}},
	{"a price changes at its date", spending, []string{
		"team=a output=large", "ok: 90 of 100/month", "wait 23h59m59s", "", "team=a output=large", "ok: 80 of 100/month",
		"wait 1s", "", "team=a output=large", "ok: 59 of 100/month",
		"wait 23h59m59s", "", "team=a output=large", "ok: 38 of 100/month",
		"wait 1s", "", "team=a output=large +9", "ok: 38 of 100/month",
	}},
	{"a budget is any above", spending, []string{
		"team=a project=p input=x +7", "ok: 93 of 100/month", "team=a project=p output=x +4", "ok: 4 of 10/day",
		"team=a project=p output=x +4", "OVER: 0 of 10/day", "team=a project=p output=x +1", "ok: 2 of 10/day",
		"team=a project=q output=x", "ok: 8 of 10/day", "team=a +0", "ok: 93 of 100/month",
	}},
	{"a budget in shadow denies nothing", spending, []string{
		"tried=a input=x +2", "ok: 0 of 1/month shadow", "tried=a input=x", "ok: 0 of 1/month shadow",
	}},
	{"a request brings its own budget", spending, []string{
		"team=a input=large +4 !50/month", "ok: 40 of 50/month", "team=a output=large +5 !50/month", "OVER: 0 of 50/month",
		"team=a +0", "ok: 40 of 100/month",
		"team=a input=large +4 !50/day", "ok: 40 of 50/day", "team=a output=large +1 !50/day", "ok: 30 of 50/day",
	}},
}

func TestBudgetsAreCharged(t *testing.T) {
	runInMemory(t, budgets)
}

func TestBudgetsAreChargedInRedis(t *testing.T) {
	runInRedis(t, budgets)
}

func TestMetricsOfABudgetAreInItsUnit(t *testing.T) {
	service := newService(t, spending, nil)
	for _, text := range []string{"team=a input=large +4", "team=a input=large +0", "team=a output=x"} {
		service.Decide(t.Context(), ask(t, text))
	}
	for _, want := range []string{
		"hits_total d team.input_large within 10\n", "hits_total d team.output over 1e+06\n",
	} {
		if got := metricsOf(service); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestABudgetIsExplained(t *testing.T) {
	config, err := descriptors.Parse(descriptors.File{Name: "d.yaml", Text: []byte("domain: d" + spending)})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"team=a":              "100/month",
		"team=a input=large":  "100/month of the budget team, a hit costs 2.5",
		"team=a output=large": "100/month of the budget team, a hit costs 10, 20.001 from 2000-01-02, 0 from 2000-01-03",
	} {
		if e, ok := config.Explain("d", ask(t, text).Descriptors[0].Entries); !ok || e.Limits[0] != want {
			t.Errorf("%s: %v, want %s", text, e, want)
		}
	}
}

func TestMistakesOfBudgets(t *testing.T) {
	once := "rate_limit: {unit: day, requests_per_unit: 1}"
	for text, want := range map[string]string{
		"budget: team":                     "8:9: weight is required beside budget",
		"weight: 2":                        "8:26: weight is for a budget",
		"budget: other, weight: 2":         `8:26: budget: no descriptor above has a limit with the name "other"`,
		"budget: team, weight: 2.1234":     "8:40: weight must be a number from 0 to 1000000",
		"budget: team, weight: -1":         "8:40: weight must be",
		"budget: team, weight: 1e3":        "8:40: weight must be",
		"budget: team, weight: 1000000.1":  "8:40: weight must be",
		"budget: team, weight: .5":         "8:40: weight must be",
		"budget: team, weight: cheap":      `8:40: weight must be a number from 0 to 1000000 with at most three decimals`,
		"budget: flight, weight: 1":        `8:26: budget: no descriptor above`,
		"budget: team, weight: 1, " + once: "8:26: budget stands in place of rate_limit",
	} {
		_, err := descriptors.Parse(descriptors.File{Name: "d.yaml", Text: []byte(`domain: d
prices: {dear: 5}
descriptors:
  - {key: flying, rate_limit: {name: flight, algorithm: concurrent 5, hold_time: 1m}}
  - key: team
    rate_limit: {name: team, unit: month, requests_per_unit: 100}
    descriptors:
      - {key: m, ` + text + "}\n")})
		place, says, _ := strings.Cut(want, ": ")
		if err == nil || !strings.HasPrefix(err.Error(), "d.yaml:"+place) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	_, err := descriptors.Parse(
		descriptors.File{Name: "a.yaml", Text: []byte("domain: d\nprices: {x: 1}\n")},
		descriptors.File{Name: "prices.yaml", Text: []byte(`prices:
  x: 2
  5: 2
  a: []
  b: [{weight: 1, from: 2027-01-01}]
  c: [{weight: 1}, {weight: 2}]
  d: [{weight: 1}, {weight: 2, from: 2027-02-01}, {weight: 3, from: 2027-01-01}]
  e: [{weight: 1}, {weight: 2, from: soon}]
  f: [{price: 2}]
  g: two
  -1: 2
`)})
	want := []string{
		"2:3: prices: \"x\" is here twice", "3:3: prices: a name must be", "4:6: a price needs a weight",
		"5:25: the first weight of a price has no date", "6:20: from is required", "7:69: from must be later",
		"8:38: from must be a day in UTC", "9:7: weight is required", "9:8: there is no field \"price\"",
		"10:6: weight must be", "11:3: prices: a name must be",
	}
	got := descriptors.Mistakes(err)
	_, err = descriptors.Parse(descriptors.File{Name: "prices.yaml", Text: []byte("prices: {x: 2}\n")})
	if err == nil || !strings.Contains(err.Error(), "no file has a domain") {
		t.Error(err)
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i].Error(), "prices.yaml:"+want[i]) {
			t.Fatalf("mistake %d:\n%v", i, err)
		}
	}
}

// Prices are in a file of their own, and change with it. What is spent stays spent.
func TestPricesAreReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		_, limits, _ := strings.Cut(spending, "descriptors:")
		write("limits.yaml", "domain: d\ndescriptors:"+limits)
		write("prices.yaml", "prices: {large-input: 2.5, large-output: 10}\n")
		service, watcher, err := descriptors.NewWatcher([]string{dir}, descriptors.Options{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range [][2]string{
			{"", "ok: 90 of 100/month"}, {"prices: {large-input: 5, large-output: 10}\n", "ok: 70 of 100/month"},
			{"prices: {large-input: 5.0001, large-output: 10}\n", "ok: 50 of 100/month"},
			{"prices: {}\n", "ok: 30 of 100/month"},
		} {
			if step[0] != "" {
				write("prices.yaml", step[0])
				watcher.Reload()
			}
			if got := said(service.Decide(t.Context(), ask(t, "team=a input=large +4"))); got != step[1] {
				t.Errorf("%q: %s, want %s", step[0], got, step[1])
			}
		}
		if _, err := watcher.Failure(); err == nil || !strings.Contains(err.Error(), "weight must be") {
			t.Error(err)
		}
	})
}
