// repositoryOf returns a reference without its digest.
export const repositoryOf = (reference: string) => reference.replace(/@.*$/, "");

// linesOf reads a list with one entry per line; spaces and commas separate entries, too.
export const linesOf = (text: string) => text.split(/[\s,]+/).filter(Boolean);
