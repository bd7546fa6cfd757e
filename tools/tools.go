// Package tools pins the tools that generate, lint and check the module. It is
// a module of its own so that their dependencies do not weigh on ours.
package tools
