// Package arch holds the shape of the module by its tests: who may import
// whom, that every package says what it is for, and that mains and files stay
// small.
package arch
