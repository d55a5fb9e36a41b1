//! Matrices of link words as `nvidia-smi topo -m` prints them: `X NV1 NV2 SYS`.

use bandpilot_core::LinkClass;

/// What is wrong with a matrix, and where: row and cell from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MatrixError {
    pub(crate) row: usize,
    pub(crate) cell: usize,
    pub(crate) message: String,
    pub(crate) help: String,
}

const WORDS: &str = "the words are X, NV1, NV2, ..., PIX, PXB, PHB, NODE and SYS";

/// Checks rows of words and turns them into a row-major matrix; the diagonal becomes SYS.
pub(crate) fn matrix(rows: &[Vec<&str>], gpus: usize) -> Result<Vec<LinkClass>, MatrixError> {
    let error = |row: usize, cell: usize, message: String, help: &str| MatrixError {
        row,
        cell,
        message,
        help: help.to_owned(),
    };
    if rows.len() != gpus {
        let message = format!("{} rows of links for {gpus} GPUs", rows.len());
        return Err(error(0, 0, message, "give one row a GPU, without a header row"));
    }
    let mut cells = Vec::with_capacity(gpus * gpus);
    for (i, row) in rows.iter().enumerate() {
        if row.len() != gpus {
            let message = format!("row {i} has {} links for {gpus} GPUs", row.len());
            return Err(error(i, 0, message, "give one word a GPU, without the row's label"));
        }
        for (j, word) in row.iter().enumerate() {
            let class = match (i == j, LinkClass::parse(word)) {
                (true, _) if *word == "X" => LinkClass::Sys,
                (true, _) => {
                    let message = format!("'{word}' stands on the diagonal of row {i}");
                    return Err(error(i, j, message, "a GPU's link to itself is X"));
                }
                (false, Some(class)) => class,
                (false, None) => {
                    return Err(error(i, j, format!("'{word}' is not a link word"), WORDS));
                }
            };
            cells.push(class);
        }
        for (j, other) in rows.iter().enumerate().take(i) {
            let (here, there) = (row.get(j), other.get(i));
            if here != there {
                let (here, there) = (here.unwrap_or(&""), there.unwrap_or(&""));
                let message = format!("GPU {i} to {j} is {here}, but GPU {j} to {i} is {there}");
                return Err(error(i, j, message, "make the matrix symmetric"));
            }
        }
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, gpus: usize) -> Result<Vec<LinkClass>, MatrixError> {
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        matrix(&rows, gpus)
    }

    #[test]
    fn accepts_a_symmetric_matrix() {
        let cells = read("X NV2 SYS\nNV2 X PIX\nSYS PIX X", 3).unwrap();
        assert_eq!(cells.get(1), Some(&LinkClass::Nv(2)));
        assert_eq!(cells.get(5), Some(&LinkClass::Pix));
    }

    #[test]
    fn refuses_everything_else() {
        for (text, row, cell, part) in [
            ("X SYS\nNODE X", 1, 0, "GPU 1 to 0 is NODE"),
            ("X SYS", 0, 0, "1 rows"),
            ("X SYS\nSYS", 1, 0, "row 1 has 1 links"),
            ("X foo\nfoo X", 0, 1, "'foo'"),
            ("X NV0\nNV0 X", 0, 1, "'NV0'"),
            ("X SYS\nSYS SYS", 1, 1, "diagonal"),
            ("X X\nX X", 0, 1, "'X'"),
        ] {
            let error = read(text, 2).unwrap_err();
            assert!(error.message.contains(part), "{text}: {}", error.message);
            assert_eq!((error.row, error.cell), (row, cell), "{text}");
        }
    }
}
