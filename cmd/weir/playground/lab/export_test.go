package lab

// GaugeOf returns what the first rule of a panel would say now.
func (l *Lab) GaugeOf(panel int) Gauge { return l.panels[panel].rules[0].gauge() }
