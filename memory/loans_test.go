package memory

import (
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// slowLoans are loans by their definition.
type slowLoans []slowLoan

type slowLoan struct {
	of         borrower
	units, end int64
}

func (s slowLoans) held(hash uint64, now int64) (units int64) {
	for _, one := range s {
		if one.of.hash == hash && one.end > now {
			units += one.units
		}
	}
	return units
}

func (s *slowLoans) lend(of borrower, n, end, now int64) {
	for i := range *s {
		if one := &(*s)[i]; one.of == of && of.holder != 0 && one.units > 0 && one.end > now {
			one.units, one.end = one.units+n, max(one.end, end)
			return
		}
	}
	*s = append(*s, slowLoan{of, n, end})
}

func (s slowLoans) takeBack(of borrower, n, now int64) (returned int64) {
	for i := len(s) - 1; i >= 0; i-- {
		if one := &s[i]; one.of == of && one.end > now {
			part := min(one.units, n-returned)
			one.units -= part
			returned += part
		}
	}
	return returned
}

func TestLoansAreThoseOfTheirDefinition(t *testing.T) {
	random := testrun.Random(t)
	for range testrun.Sized(200, 20_000) {
		table := &heldTable{slots: make([]heldSlot, leastHeldSlots)}
		loans, slow, now := &table.loans, slowLoans{}, int64(0)
		for range 60 {
			of := borrower{hash: 1 + uint64(random.IntN(3)), holder: uint64(random.IntN(3))}
			n := int64(1 + random.IntN(4))
			now += int64(random.IntN(8))
			loans.endUntil(table, now)
			if random.IntN(2) == 0 {
				end := now + 1 + int64(random.IntN(60))
				loans.lend(table, of.hash, of.holder, n, end)
				slow.lend(of, n, end, now)
			} else if got, want := loans.takeBack(table, of.hash, of.holder, n), slow.takeBack(of, n, now); got != want {
				t.Fatalf("%d of %d units came back, want %d", got, n, want)
			}
			for hash := range uint64(4) {
				if got, want := table.of(hash), slow.held(hash, now); got != want {
					t.Fatalf("%d: %d units are held under %d, want %d", now, got, hash, want)
				}
			}
		}
		loans.endUntil(table, now+100)
		if table.used != 0 || len(loans.latest) != 0 || len(loans.byEnd) != 0 {
			t.Fatalf("%d keys, %d borrowers and %d loans remain", table.used, len(loans.latest), len(loans.byEnd))
		}
	}
}
