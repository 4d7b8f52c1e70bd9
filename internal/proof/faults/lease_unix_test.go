//go:build unix

package faults

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
)

const leaseProcesses = 8

// Eight processes hold units of one key. Two are killed, others are stopped for longer than a
// lease and go on. What all of them have admitted, merged by the time of the server, fits the
// limit as the exact model counts it. What a process misses is counted in the admissions of the
// others, of which there are 5,000 in a second at most. It goes on for a minute.
func TestEightProcessesWithLeasesAdmitNothingBeyondTheLimit(t *testing.T) {
	s := startServer(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 500
	var all []*exec.Cmd
	var files []string
	for i := range leaseProcesses {
		file := filepath.Join(t.TempDir(), fmt.Sprint(i))
		p := testrun.Command(t, self)
		p.Env = append(os.Environ(), leaseVariable+"="+s.addr, leaseFile+"="+file)
		p.Stderr = os.Stderr
		stdin, err := p.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		defer p.Wait()
		defer stdin.Close()
		all, files = append(all, p), append(files, file)
	}
	random := testrun.Random(t)
	stops, kills := 0, 0
	// more waits until the processes have admitted n more.
	more := func(n int) {
		t.Helper()
		goal := admissionsIn(files) + int64(n)
		eventually(t, "more is admitted", func() bool { return admissionsIn(files) >= goal })
	}
	more(5500) // the burst, and some more
	for round := range rounds {
		more(random.IntN(500))
		p := all[random.IntN(leaseProcesses-2)]
		if p.Process.Signal(syscall.SIGSTOP) == nil {
			stops++
			more(random.IntN(600)) // for up to twice as long as a lease, or longer
			p.Process.Signal(syscall.SIGCONT)
		}
		if kills < 2 && round >= rounds*(kills+1)/3 {
			kills++
			all[leaseProcesses-kills].Process.Kill()
		}
	}
	eventually(t, "some are admitted by leases, and most of the burst", func() bool {
		admitted := readAdmissions(t, files)
		return len(admitted) >= 5000 && slices.ContainsFunc(admitted, func(at int64) bool { return at&1 == 1 })
	})
	for _, p := range all {
		p.Process.Kill()
	}
	admitted := readAdmissions(t, files)
	slices.Sort(admitted)
	var now int64
	model := limitstest.NewExact(func() time.Time { return time.UnixMicro(now) })
	charges, out := []backends.Charge{{Scope: "s", Key: "k", Limit: leasedLimit, Cost: 1}}, make([]limits.Decision, 1)
	leased, beyond := 0, 0
	for _, at := range admitted {
		leased += int(at & 1)
		now = at >> 1
		if err := model.Take(t.Context(), charges, out); err != nil {
			t.Fatal(err)
		}
		if !out[0].Allowed {
			beyond++
		}
	}
	if beyond > 0 {
		t.Errorf("%d of %d admissions are beyond the limit, %d by leases: want none", beyond, len(admitted), leased)
	}
	span := time.Duration(admitted[len(admitted)-1]>>1-admitted[0]>>1) * time.Microsecond
	t.Logf("FAULT %d processes with leases on one key, %d stops while the others admit up to 600, %d killed: %d "+
		"admitted in %s ms of %d due, %.0f%% by leases, %d beyond the limit",
		leaseProcesses, stops, kills, len(admitted), ms(span), 5000+int(span.Seconds()*5000),
		100*float64(leased)/float64(len(admitted)), beyond)
}

// admissionsIn returns how many admissions files have.
func admissionsIn(files []string) (n int64) {
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			n += info.Size() / 8
		}
	}
	return n
}

// readAdmissions returns the instants in files; 1 in the last bit: leased.
func readAdmissions(t *testing.T, files []string) (admitted []int64) {
	t.Helper()
	for _, file := range files {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) { // it has not come to admit anything
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		for r := bufio.NewReader(f); ; {
			var at int64
			if binary.Read(r, binary.LittleEndian, &at) != nil {
				break
			}
			admitted = append(admitted, at)
		}
		f.Close()
	}
	return admitted
}
