package core_test

import (
	"testing"

	"github.com/weir-go/weir/core"
)

func TestModesAsText(t *testing.T) {
	for text, want := range map[string]core.Mode{
		"enforce": core.Enforce, "Shadow": core.Shadow, " disabled ": core.Disabled,
		"enforce 25%": core.EnforceFor(25), "enforce 0%": core.Shadow, "enforce 100%": core.Enforce,
	} {
		var got core.Mode
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
		back, err := want.MarshalText()
		if again, err2 := core.ParseMode(string(back)); err != nil || err2 != nil || again != want {
			t.Errorf("%v is written %q and read as %v (%v, %v)", want, back, again, err, err2)
		}
	}
	for _, text := range []string{"", "off", "enforce 101%", "enforce -1%", "enforce 2.5%", "shadow 5%", "enforce 5",
		"enforce +5%", "enforce -0%", "enforce 007%", "enforce %", "enforce NaN%"} {
		if m, err := core.ParseMode(text); err == nil {
			t.Errorf("%q is %v", text, m)
		}
	}
	for _, percent := range []int{-1, 101, 70000} {
		if _, err := core.EnforceFor(percent).MarshalText(); err == nil {
			t.Errorf("EnforceFor(%d) is legal", percent)
		}
	}
	if p := core.EnforceFor(25).Percent(); p != 25 {
		t.Errorf("Percent = %d", p)
	}
}
