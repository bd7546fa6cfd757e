// Package echomask stub
package echomask

import "net/http"

type Secret struct{ Name, Value string }
type Masker struct{}

func New([]Secret) *Masker                     { return &Masker{} }
func (m *Masker) Response(*http.Response) error { return nil }
