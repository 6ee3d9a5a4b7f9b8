package plan

import "github.com/harpagon/harpagon/pipelines/quantity"

// The JSON of a plan is part of the public contract: times are milliseconds as
// numbers, rates requests per second, cost money per hour. It round-trips to
// the nanosecond.

// MarshalJSON writes the fixed field names of the contract.
func (p Plan) MarshalJSON() ([]byte, error) { return quantity.Marshal(p) }

// UnmarshalJSON reads what MarshalJSON wrote; fields that it does not know are ignored.
func (p *Plan) UnmarshalJSON(text []byte) error { return quantity.Unmarshal(text, p) }

// MarshalJSON writes the fixed field names of the contract.
func (m Module) MarshalJSON() ([]byte, error) { return quantity.Marshal(m) }

// UnmarshalJSON reads what MarshalJSON wrote; fields that it does not know are ignored.
func (m *Module) UnmarshalJSON(text []byte) error { return quantity.Unmarshal(text, m) }

// MarshalJSON writes the fixed field names of the contract.
func (g Group) MarshalJSON() ([]byte, error) { return quantity.Marshal(g) }

// UnmarshalJSON reads what MarshalJSON wrote; fields that it does not know are ignored.
func (g *Group) UnmarshalJSON(text []byte) error { return quantity.Unmarshal(text, g) }

// MarshalJSON writes the fixed field names of the contract.
func (t Task) MarshalJSON() ([]byte, error) { return quantity.Marshal(t) }

// UnmarshalJSON reads what MarshalJSON wrote; fields that it does not know are ignored.
func (t *Task) UnmarshalJSON(text []byte) error { return quantity.Unmarshal(text, t) }

// MarshalJSON writes the fixed field names of the contract.
func (c Covers) MarshalJSON() ([]byte, error) { return quantity.Marshal(c) }

// UnmarshalJSON reads what MarshalJSON wrote; fields that it does not know are ignored.
func (c *Covers) UnmarshalJSON(text []byte) error { return quantity.Unmarshal(text, c) }

// MarshalJSON writes the fixed field names of the contract.
func (k CoveredKind) MarshalJSON() ([]byte, error) { return quantity.Marshal(k) }

// UnmarshalJSON reads what MarshalJSON wrote; fields that it does not know are ignored.
func (k *CoveredKind) UnmarshalJSON(text []byte) error { return quantity.Unmarshal(text, k) }
