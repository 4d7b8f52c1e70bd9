//go:build !race

package interleave

func hidden(switch_ func()) { switch_() }
