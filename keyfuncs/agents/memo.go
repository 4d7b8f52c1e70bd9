package agents

import (
	"crypto/ed25519"
	"crypto/sha256"
	"sync"

	"github.com/weir-go/weir/keyfuncs/agents/internal/httpsig"
)

// Sizes of a memo. The numbers of shards and slots are powers of two.
const (
	memoShards = 16
	goodSlots  = 64 // a shard: 1,024 signatures in 32 kB
	badSlots   = 16
)

// memo remembers which signatures verify, since one request is asked about several times: for its
// key, its plan and its nonce. Whether a key has signed a text never changes, so nothing expires. A
// slot is overwritten by another signature with the same first bits. What is good and what is not
// have slots of their own: forged signatures, of which anyone can send any number, displace no good
// ones.
type memo struct {
	shards [memoShards]struct {
		sync.Mutex
		good [goodSlots][sha256.Size]byte
		bad  [badSlots][sha256.Size]byte
	}
}

// verify reports whether s is the signature of key over base.
func (m *memo) verify(s *httpsig.Signature, key ed25519.PublicKey, base []byte) bool {
	sum := digest(s, key, base)
	shard := &m.shards[sum[0]%memoShards]
	good, bad := &shard.good[sum[1]%goodSlots], &shard.bad[sum[1]%badSlots]
	shard.Lock()
	isGood, isBad := *good == sum, *bad == sum
	shard.Unlock()
	if isGood || isBad {
		return isGood
	}
	slot := bad
	ok := s.Verify(key, base)
	if ok {
		slot = good
	}
	shard.Lock()
	*slot = sum
	shard.Unlock()
	return ok
}

// digest tells apart all keys, signatures and texts. The first two have fixed lengths.
func digest(s *httpsig.Signature, key ed25519.PublicKey, base []byte) (sum [sha256.Size]byte) {
	var room [2048]byte
	b := append(append(append(room[:0], key...), s.Value[:]...), base...)
	return sha256.Sum256(b)
}
