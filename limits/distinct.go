package limits

// Distinct counts the different values of a key within a period: the user names that an address
// tries, or the addresses that use an API key. A request with a value that the key has had within
// the period is allowed and costs nothing. A new value takes a unit if one is left.
//
// A value leaves one period after the last allowed request that had it. So no interval of that
// length has more different values than the limit has units, and a client that keeps using two
// values keeps both. A denied request changes nothing: its value stays new, and no value stays
// longer. A backend stores digests of values, at most 1,000 for a key.
//
// core.Rule.Value, or Charge.Value of package backends, is the value of a request. A cost above 1
// counts as 1.
func Distinct(rate Rate) Limit {
	return Limit{algorithm: AlgorithmDistinct, rate: rate, burst: rate.Units}
}
