"""Made-up names of the gym's people. No first name is the beginning of another name in these lists, so that a search for a first
name finds one person."""

from __future__ import annotations

_MEN = (
    "John Ahmed Lucas Carlos Noah Diego Ravi Ethan Liam Mateo Omar Pedro Victor Hugo Samuel Kenji Tomas Bruno Oscar Felipe "
    "Henry Jorge Lorenzo Otto Quentin Stefan Ulrich Xavier Zane Cedric Erik Gustav Ismael Kofi Magnus Orlando Rafael Tiago "
    "Viggo Anders Boris Dmitri Farid Hamza Joel Lennart Niklas Pablo Silas Walter"
)
_WOMEN = (
    "Maria Priya Emma Yuki Olivia Fatima Hannah Sofia Aisha Chloe Ingrid Grace Nina Leila Zoe Beatriz Amelia Freya Camila "
    "Ruth Dalia Ivana Kavya Mina Nadia Paula Rosa Tara Vera Wanda Yara Bianca Dora Flora Helga Jasmin Lydia Nuria Petra "
    "Sabine Ursula Wilma Celine Elsa Gloria Irina Klara Monica Ophelia Renata"
)
_LAST = (
    "Smith Garcia Hassan Sharma Almeida Brown Mendes Tanaka Wilson Fischer Khan Romero Weber Patel Rossi Clark Diallo Murphy "
    "Dubois Herrera Nilsson Farouk Hughes Carvalho Petrov Moreau Abbasi Keller Novak Reyes Teixeira Sato Bennett Horak Larsen "
    "Ferrari Vargas Lindgren Cohen Barros Osei Becker Kowalski Navarro Iyer Conti Popova Haddad Schulz Ortega Lambert Jensen "
    "Bauer Mbeki Ekman Vogel Hofmann Castillo Sousa Adeyemi"
)


def first_names() -> list[tuple[str, str]]:
    """Returns first names with genders, men and women alternating."""
    pairs = zip(_MEN.split(), _WOMEN.split(), strict=True)
    return [person for man, woman in pairs for person in ((man, "male"), (woman, "female"))]


def last_names() -> list[str]:
    return _LAST.split()
