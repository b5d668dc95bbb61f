//! Memory as it comes from the system.

use std::sync::atomic::AtomicBool;
#[cfg(target_os = "linux")]
use std::sync::atomic::Ordering;

#[cfg(target_os = "linux")]
use memmap2::{Advice, MmapMut};

/// Whether huge pages are asked for.
pub(super) static HUGE_PAGES: AtomicBool = AtomicBool::new(true);

/// One cache line: the unit and the alignment of all memory.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line([u8; 64]);

/// The bytes of a line.
pub(super) const LINE: usize = size_of::<Line>();

/// Some lines, of which all bytes are initialised.
pub(super) enum Memory {
    Lines(Vec<Line>),
    #[cfg(target_os = "linux")]
    Pages(Pages),
}

impl Memory {
    /// New memory, or `None` if the system refuses it.
    pub(super) fn new(lines: usize) -> Option<Self> {
        #[cfg(target_os = "linux")]
        if lines >= Pages::LEAST / LINE {
            return Pages::new(lines.checked_mul(LINE)?).map(Self::Pages);
        }
        let mut memory = Vec::new();
        memory.try_reserve_exact(lines).ok()?;
        memory.resize(lines, Line([0; LINE]));
        Some(Self::Lines(memory))
    }

    /// The number of lines.
    pub(super) fn lines(&self) -> usize {
        match self {
            Self::Lines(lines) => lines.len(),
            #[cfg(target_os = "linux")]
            Self::Pages(pages) => pages.bytes / LINE,
        }
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        match self {
            Self::Lines(lines) => lines.as_ptr().cast(),
            #[cfg(target_os = "linux")]
            Self::Pages(pages) => pages.map[pages.start..].as_ptr(),
        }
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        match self {
            Self::Lines(lines) => lines.as_mut_ptr().cast(),
            #[cfg(target_os = "linux")]
            Self::Pages(pages) => pages.map[pages.start..].as_mut_ptr(),
        }
    }

    /// Makes all bytes zero.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Lines(lines) => lines.fill(Line([0; LINE])),
            #[cfg(target_os = "linux")]
            Self::Pages(pages) => pages.map[pages.start..][..pages.bytes].fill(0),
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::Lines(Vec::new())
    }
}

/// Whole pages, huge ones as far as the system has some.
// PERF: on their way through large arrays, processors look up every page and stop to look ahead at its end. A huge
// page takes the place of 512 others. What is new is zero, and nobody writes that once more.
#[cfg(target_os = "linux")]
pub(super) struct Pages {
    map: MmapMut,
    /// The bytes before the first huge page.
    start: usize,
    bytes: usize,
}

#[cfg(target_os = "linux")]
impl Pages {
    /// The bytes of a huge page.
    const LEAST: usize = 1 << 21;

    /// New pages, whose bytes are zero, or `None` if the system refuses them.
    fn new(bytes: usize) -> Option<Self> {
        let before = |map: &MmapMut| map.as_ptr().align_offset(Self::LEAST);
        let mut map = MmapMut::map_anon(bytes).ok()?;
        if before(&map) > 0 {
            drop(map);
            map = MmapMut::map_anon(bytes.checked_add(Self::LEAST)?).ok()?;
        }
        let start = before(&map);
        if HUGE_PAGES.load(Ordering::Relaxed) {
            // If the system has none, its pages are small.
            let _ = map.advise_range(Advice::HugePage, start, bytes);
        }
        Some(Self { map, start, bytes })
    }
}
