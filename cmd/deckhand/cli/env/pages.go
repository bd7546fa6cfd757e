package env

// NoteMore says that a list has more rows than were shown. The token of the next
// page is for programs, which read it in the formats for them; a person asks for
// all.
func NoteMore(e *Env, shown int, token string) {
	if token == "" {
		return
	}
	if e.Format.ForPeople() {
		e.Notef("%d shown, there are more. All: --limit 0", shown)
		return
	}
	e.Notef("%d shown, there are more. The next ones: --page %s. All: --limit 0", shown, token)
}
