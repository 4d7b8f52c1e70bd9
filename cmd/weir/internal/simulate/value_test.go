package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// Ten addresses log in every minute for an hour: nine as their own user, and one as another user
// every time.
func TestAColumnOfALogIsTheValueThatALimitCounts(t *testing.T) {
	var log strings.Builder
	for minute := range 60 {
		for client := range 10 {
			user := fmt.Sprint("user ", client)
			if client == 0 {
				user = fmt.Sprint("name ", minute)
			}
			at := time.Date(2026, time.November, 1, 12, minute, client, 0, time.UTC)
			fmt.Fprintf(&log, `{"time":%q,"remote_ip":"192.0.2.%d","method":"POST",`+
				`"uri":"/login","status":200,"user":%q}`+"\n",
				at.Format(time.RFC3339Nano), client, user)
		}
	}
	policy, err := simulate.OneLimit("distinct 5/10m", "address", "name", nil)
	if err != nil {
		t.Fatal(err)
	}
	options := simulate.Options{
		Logs: []string{write(t, "app.log", []byte(log.String()))}, Policy: policy,
		Log: accesslog.Options{Format: "jsonl", Fields: map[string]string{
			"time": "time", "address": "remote_ip", "method": "method", "path": "uri",
			"key.name": "user",
		}},
	}
	r := do(t, options)
	if len(r.Policy.Rules) != 1 {
		t.Fatalf("not simulated: %+v", r.Policy.Skipped)
	}
	rule := &r.Policy.Rules[0]
	// Five names in the first five minutes, then five each time that they have left.
	if rule.Denied != (simulate.Range{Low: 30, High: 30}) || rule.KeysDenied.High != 1 || rule.AskedUnits != 60+9*6 {
		t.Errorf("%v denied, %v keys, %d units asked", rule.Denied, rule.KeysDenied, rule.AskedUnits)
	}
	if rule.Top[0].Peak != 10 || rule.Top[1].Peak != 1 {
		t.Errorf("busiest keys: %+v", rule.Top[:2])
	}
	delete(options.Log.Fields, "key.name")
	if r := do(t, options); len(r.Policy.Skipped) != 1 || !strings.Contains(r.Policy.Skipped[0].Why, "the key name") {
		t.Errorf("without the column: %+v", r.Policy.Skipped)
	}
}
