package policy_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/policy"
)

// watched is a file that Watch follows, and what became of it.
type watched struct {
	*testing.T
	path string

	mu      sync.Mutex     // the goroutine of Watch writes what follows
	applied []limits.Limit // of the first rule, one for each call of apply
	refuse  error          // what apply returns
	panicky bool           // apply panics
	events  []policy.Event
	log     strings.Builder
}

// rate is a file whose only rule has a limit of n a second.
func rate(n int) string {
	return fmt.Sprintf("version: 1\nrules:\n  - name: all\n    key: everybody\n    limit: %d/second\n", n)
}

// watch runs story while a file at path, with a rate of 1, is watched.
func watch(t *testing.T, path string, story func(*watched)) {
	w := &watched{path: path}
	w.T = t
	p, err := policy.Load(path, names)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w.T = t
		ctx, cancel := context.WithCancel(t.Context())
		var ended error
		go func() {
			ended = policy.Watch(ctx, p, func(rules []core.Rule[request]) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.panicky {
					panic("boom")
				}
				if w.refuse == nil {
					w.applied = append(w.applied, rules[0].Limit)
				}
				return w.refuse
			}, policy.Options{
				Logger: slog.New(slog.NewTextHandler(w, nil)),
				Observe: func(e policy.Event) {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.events = append(w.events, e)
				},
			})
		}()
		synctest.Wait()
		story(w)
		cancel()
		synctest.Wait()
		if !errors.Is(ended, context.Canceled) {
			t.Errorf("Watch returned %v", ended)
		}
	})
}

// Write writes a line of the log.
func (w *watched) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(line)
}

// refuses makes apply return err.
func (w *watched) refuses(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = err
}

// panics makes apply panic.
func (w *watched) panics(panicky bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.panicky = panicky
}

// logs reports whether the log has a text.
func (w *watched) logs(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(w.log.String(), text)
}

// seen returns what Observe was called with.
func (w *watched) seen() []policy.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

func newFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write(t, path, text)
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// looks lets Watch read the file n times more.
func (w *watched) looks(n int) {
	for range n {
		time.Sleep(2 * time.Second)
		synctest.Wait()
	}
}

// rates checks the rates that were applied.
func (w *watched) rates(want ...int64) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []int64
	for _, l := range w.applied {
		got = append(got, l.Rate().Units)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("applied %v, want %v\n%s", got, want, w.log.String())
	}
}

// says checks how many lines the log has, and what is in the last one.
func (w *watched) says(lines int, last string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := strings.Split(strings.TrimSpace(w.log.String()), "\n")
	if w.log.Len() == 0 {
		got = nil
	}
	if len(got) != lines || lines > 0 && !strings.Contains(got[lines-1], last) {
		w.Errorf("%d lines, want %d, the last with %q:\n%s", len(got), lines, last, w.log.String())
	}
}

func TestWatchAppliesWhatTwoReadsAgreeOn(t *testing.T) {
	watch(t, newFile(t, rate(1)), func(w *watched) {
		w.looks(3)
		w.rates()
		w.says(0, "")
		write(w.T, w.path, rate(2))
		w.looks(1)
		w.rates()
		w.looks(1)
		w.rates(2)
		w.says(1, "sliding-window 1/1s → sliding-window 2/1s")
		w.looks(3)
		w.rates(2)
		if events := w.seen(); len(events) != 1 || events[0].Err != nil || len(events[0].Changes) != 1 ||
			events[0].File != w.path || len(events[0].Digest) != 64 {
			w.Errorf("%+v", events)
		}
	})
}

func TestAChangeBeforeWatchIsNotLost(t *testing.T) {
	path := newFile(t, rate(1))
	p, err := policy.Load(path, names)
	must(t, err)
	write(t, path, rate(2))
	synctest.Test(t, func(t *testing.T) {
		applied := 0
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		policy.Watch(ctx, p, func([]core.Rule[request]) error { applied++; return nil },
			policy.Options{Logger: slog.New(slog.DiscardHandler)})
		if applied != 1 {
			t.Errorf("applied %d times", applied)
		}
	})
}

func TestAMistakeChangesNothingAndIsLoggedOnce(t *testing.T) {
	watch(t, newFile(t, rate(1)), func(w *watched) {
		write(w.T, w.path, rate(0))
		w.looks(5)
		w.rates()
		w.says(1, "must be 1 to 1000000000")
		write(w.T, w.path, "version: 1\nrules: []\n")
		w.looks(5)
		w.rates()
		w.says(2, "empty list")
		write(w.T, w.path, rate(1))
		w.looks(2)
		w.says(3, "in force again")
		write(w.T, w.path, rate(0))
		w.looks(3)
		w.says(4, "must be 1 to 1000000000")
		write(w.T, w.path, rate(3))
		w.looks(2)
		w.rates(3)
		events := w.seen()
		if len(events) != 5 || events[0].Err == nil || events[3].Err == nil || events[4].Err != nil {
			w.Fatalf("%+v", events)
		}
		// A page that shows the last event must not show a mistake that is mended.
		if back := events[2]; back.Err != nil || len(back.Changes) != 0 || back.File != w.path ||
			len(back.Digest) != 64 {
			w.Errorf("the policy in force again: %+v", back)
		}
	})
}

func TestAFileThatIsWrittenSlowlyIsAppliedWhole(t *testing.T) {
	watch(t, newFile(t, rate(1)), func(w *watched) {
		whole := rate(200)
		for n := 0; n < len(whole); n += 7 { // the writer is slower than Watch, and never as slow as two reads
			write(w.T, w.path, whole[:n])
			w.looks(1)
		}
		write(w.T, w.path, whole)
		w.looks(2)
		w.rates(200)
		w.says(1, "applied")
	})
}

// A file that ends anywhere is never applied in part, as long as it is whole at the next
// read.
func TestTruncationAtEveryByteAppliesNothingWrong(t *testing.T) {
	text, err := os.ReadFile("testdata/good/shop.yaml")
	must(t, err)
	watch(t, newFile(t, rate(1)), func(w *watched) {
		w.Logf("%d bytes", len(text))
		for n := range text {
			write(w.T, w.path, string(text[:n]))
			w.looks(1)
			write(w.T, w.path, rate(1))
			w.looks(1)
		}
		w.rates()
		w.says(0, "")
	})
}

// What a truncated file says is at worst less than the whole: its rules are the first
// ones of the whole, and only the last of them may differ.
func TestATruncatedFileHasTheFirstRules(t *testing.T) {
	text, err := os.ReadFile("testdata/good/shop.yaml")
	must(t, err)
	whole, err := policy.Parse("weir.yaml", text, names)
	must(t, err)
	loads := 0
	for n := range text {
		p, err := policy.Parse("weir.yaml", text[:n], names)
		if err != nil {
			continue
		}
		loads++
		rules := p.Rules()
		for _, c := range p.Changes(whole) {
			if last := rules[len(rules)-1].Name; c.Rule != last && c.New != "" {
				t.Errorf("%d bytes: %v", n, c)
			}
		}
	}
	t.Logf("%d of %d load", loads, len(text))
}

func TestAConfigMapIsFollowed(t *testing.T) {
	dir := t.TempDir()
	version := func(name string, n int) { // as the kubelet does
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		write(t, filepath.Join(dir, name, "weir.yaml"), rate(n))
	}
	swap := func(name string) {
		must(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version("..1", 1)
	swap("..1")
	must(t, os.Symlink(filepath.Join("..data", "weir.yaml"), filepath.Join(dir, "weir.yaml")))
	watch(t, filepath.Join(dir, "weir.yaml"), func(w *watched) {
		version("..2", 2)
		w.looks(2)
		swap("..2")
		must(w.T, os.RemoveAll(filepath.Join(dir, "..1")))
		w.looks(2)
		w.rates(2)
		version("..3", 3)
		swap("..3")
		w.looks(2)
		w.rates(2, 3)
		w.says(2, "applied")
	})
}

func TestAnEditorThatRenamesIsFollowed(t *testing.T) {
	watch(t, newFile(t, rate(1)), func(w *watched) {
		for n := int64(2); n < 5; n++ {
			backup, next := w.path+"~", w.path+".swp"
			write(w.T, next, rate(int(n)))
			must(w.T, os.Rename(w.path, backup))
			must(w.T, os.Rename(next, w.path))
			w.looks(2)
		}
		w.rates(2, 3, 4)
	})
}

func TestAReloadNeedsNoSecondRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "weir.yaml")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(rate(1))
		p, err := policy.Load(path, names)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		var applied []limits.Limit
		reload := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go policy.Watch(ctx, p, func(rules []core.Rule[request]) error {
			applied = append(applied, rules[0].Limit)
			return nil
		}, policy.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Reload: reload})
		begun := time.Now()
		write(rate(2))
		reload <- struct{}{}
		synctest.Wait()
		if len(applied) != 1 || time.Since(begun) != 0 {
			t.Errorf("applied %v after %v", applied, time.Since(begun))
		}
		write("version: 1\nrules: 5\n")
		reload <- struct{}{}
		reload <- struct{}{}
		synctest.Wait()
		if n := strings.Count(log.String(), "not applied"); n != 2 || len(applied) != 1 {
			t.Errorf("a mistake that was asked for twice was logged %d times, applied %v", n, applied)
		}
		cancel()
		synctest.Wait()
	})
}

// Every read takes no virtual time, so a loop without a wait would never end.
func TestAClosedReloadChannelAsksForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "weir.yaml")
		must(t, os.WriteFile(path, []byte(rate(1)), 0o600))
		p, err := policy.Load(path, names)
		must(t, err)
		reload, applied := make(chan struct{}), 0
		close(reload)
		ctx, cancel := context.WithCancel(t.Context())
		go policy.Watch(ctx, p, func([]core.Rule[request]) error {
			applied++
			return nil
		}, policy.Options{Reload: reload, Logger: slog.New(slog.DiscardHandler)})
		synctest.Wait() // returns only once Watch waits
		must(t, os.WriteFile(path, []byte(rate(2)), 0o600))
		time.Sleep(time.Minute)
		synctest.Wait()
		if applied != 1 {
			t.Errorf("a change was applied %d times", applied)
		}
		cancel()
		synctest.Wait()
	})
}

func TestWatchSurvivesWhatTakesThePlaceOfTheFile(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path string) (logged string){
		"nothing": func(*testing.T, string) string { return "no such file" },
		"a directory": func(t *testing.T, path string) string {
			must(t, os.Mkdir(path, 0o700))
			return "is not a file"
		},
		"a link in a circle": func(t *testing.T, path string) string {
			must(t, os.Symlink(path, path))
			return "too many"
		},
		"a link to nothing": func(t *testing.T, path string) string {
			must(t, os.Symlink(path+".none", path))
			return "no such file"
		},
		"a device": func(t *testing.T, path string) string {
			must(t, os.Symlink(os.DevNull, path))
			return "is not a file"
		},
		"an empty file": func(t *testing.T, path string) string {
			write(t, path, "")
			return "the file is empty"
		},
		"a file that is too large": func(t *testing.T, path string) string {
			write(t, path, rate(7)+strings.Repeat("#", 1<<20))
			return "at most 1048576 bytes"
		},
		"no text": func(t *testing.T, path string) string {
			write(t, path, "\x00\x01\xff")
			return "not applied"
		},
		"a file that may not be read": func(t *testing.T, path string) string {
			write(t, path, rate(7))
			must(t, os.Chmod(path, 0))
			if file, err := os.Open(path); err == nil { // as root may, but for what nobody may read
				file.Close()
				must(t, os.Remove(path))
				must(t, os.Symlink("/proc/sys/vm/compact_memory", path))
				if _, err := os.ReadFile(path); !errors.Is(err, os.ErrPermission) {
					t.Skip("this user may read everything")
				}
			}
			return "permission denied"
		},
		"a file within a file": func(t *testing.T, path string) string {
			write(t, path+".file", "")
			must(t, os.Symlink(path+".file/x", path))
			return "not a directory"
		},
		"a file that opens and fails": func(t *testing.T, path string) string {
			must(t, os.Symlink("/proc/self/mem", path))
			if _, err := os.ReadFile(path); !errors.Is(err, syscall.EIO) {
				t.Skip("there is no such file here")
			}
			return "input/output error"
		},
	} {
		t.Run(name, func(t *testing.T) {
			watch(t, newFile(t, rate(1)), func(w *watched) {
				must(w.T, os.Remove(w.path))
				logged := replace(w.T, w.path)
				w.looks(4)
				w.rates()
				w.says(1, logged)
				if events := w.seen(); len(events) != 1 || events[0].Err == nil {
					w.Errorf("%+v", events)
				}
				must(w.T, os.RemoveAll(w.path))
				write(w.T, w.path, rate(2))
				w.looks(2)
				w.rates(2)
				w.says(2, "applied")
			})
		})
	}
}

func TestWhatApplyRefusesIsTriedAgain(t *testing.T) {
	watch(t, newFile(t, rate(1)), func(w *watched) {
		w.refuses(errors.New("the backend does not know this"))
		write(w.T, w.path, rate(2))
		w.looks(5)
		w.says(1, "does not know this")
		w.refuses(nil)
		w.looks(1)
		w.rates(2)
		w.says(2, "applied")
	})
}

func TestAPanicInApplyChangesNothing(t *testing.T) {
	watch(t, newFile(t, rate(1)), func(w *watched) {
		w.panics(true)
		write(w.T, w.path, rate(2))
		w.looks(5)
		w.rates()
		w.says(1, "apply: panic: boom")
		w.panics(false)
		w.looks(1)
		w.rates(2)
		w.says(2, "applied")
	})
}

// The log says what is wrong now, not what was wrong before.
func TestAMistakeThatIsBackIsLoggedAgain(t *testing.T) {
	watch(t, newFile(t, rate(1)), func(w *watched) {
		write(w.T, w.path, rate(0))
		w.looks(2)
		w.says(1, "must be 1 to 1000000000")
		must(w.T, os.Remove(w.path))
		w.looks(2)
		w.says(2, "no such file")
		write(w.T, w.path, rate(0))
		w.looks(4)
		w.says(3, "must be 1 to 1000000000")
	})
}

// The context ends while apply runs, which takes longer than the next look.
func TestNothingIsAppliedAfterTheEnd(t *testing.T) {
	for range 20 { // either may be seen first
		path := newFile(t, rate(1))
		p, err := policy.Load(path, names)
		must(t, err)
		write(t, path, rate(2))
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			applied := 0
			err := policy.Watch(ctx, p, func([]core.Rule[request]) error {
				applied++
				time.Sleep(10 * time.Second)
				cancel()
				return errors.New("again")
			}, policy.Options{Logger: slog.New(slog.DiscardHandler)})
			if applied != 1 || !errors.Is(err, context.Canceled) {
				t.Errorf("applied %d times, then %v", applied, err)
			}
		})
	}
}

func TestAnOverrideThatEndsIsReportedOnce(t *testing.T) {
	override := "    overrides:\n      - {for: {user: secret-tenant}, limit: 2/s, until: %s}\n"
	text := "version: 1\nprogram: {keys: [user]}\nrules:\n  - name: all\n    key: user\n    limit: 1/s\n"
	watch(t, newFile(t, text+fmt.Sprintf(override, "2000-01-02")), func(w *watched) {
		w.looks(3)
		w.says(0, "")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		w.says(1, "the override ended at the beginning of 2000-01-02")
		w.looks(3)
		w.says(1, "")
		write(w.T, w.path, text+fmt.Sprintf(override, "1999-12-31"))
		w.looks(4)
		w.says(3, "the override ended at the beginning of 1999-12-31")
		if events := w.seen(); len(events) != 1 || len(events[0].Expired) != 1 || w.logs("secret") {
			w.Errorf("%+v", events)
		}
	})
}

func TestWatchRefusesWhatCannotWork(t *testing.T) {
	p, err := policy.Load("testdata/good/shop.yaml", names)
	must(t, err)
	apply := func([]core.Rule[request]) error { return nil }
	for want, err := range map[string]error{
		"policy: the policy to watch is nil": policy.Watch(t.Context(), nil, apply, policy.Options{}),
		"policy: apply is nil: pass a function that takes the rules": policy.Watch(t.Context(), p, nil,
			policy.Options{}),
		"policy: apply is nil: pass a function that takes the policy": policy.WatchPolicy(t.Context(), p, nil,
			policy.Options{}),
		"policy: Options.Every must not be negative (got": policy.Watch(t.Context(), p, apply,
			policy.Options{Every: -1}),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
