package policy

import (
	"fmt"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
)

// WhyNot returns, in words for people, why the named rule does not apply to r: the patterns that r
// does not match, the exception that it meets, or that the rule is disabled. It returns "" if the
// rule applies, if there is no such rule, or if a function of [Names] panics.
func (p *Policy[R]) WhyNot(rule string, r R) (why string) {
	defer func() {
		if recover() != nil {
			why = ""
		}
	}()
	for _, found := range p.file.rules {
		if found.name == rule {
			return p.whyNot(found, r)
		}
	}
	return ""
}

func (p *Policy[R]) whyNot(rule *rule, r R) string {
	if rule.mode == core.Disabled {
		return "the rule is disabled"
	}
	if len(rule.match) > 0 && !p.names.matches(rule.match, r) {
		return "matches none of " + several(rule.match)
	}
	for i := range rule.except {
		c := rule.except[i : i+1]
		if c[0].list != "" && p.onList(c[0].list, r) || c[0].list == "" && p.names.excepts(c, r) {
			return "is excepted by " + c[0].text
		}
	}
	return ""
}

// onList reports whether the address of r is on a list. A request without an address is on no list.
func (p *Policy[R]) onList(name string, r R) bool {
	inside, err := keyfuncs.Inside(p.names.addressOf(p.file), p.file.listOf[name].ranges,
		keyfuncs.Constant[R](""))
	if err != nil {
		return false
	}
	_, err = inside(r)
	return err == nil
}

// maxNamed is the number of conditions that a text names. A rule may have thousands.
const maxNamed = 8

func several(conditions []condition) string {
	if len(conditions) <= maxNamed {
		return describeConditions(conditions)
	}
	named := describeConditions(conditions[:maxNamed])
	return fmt.Sprintf("%s and %d more", named, len(conditions)-maxNamed)
}
